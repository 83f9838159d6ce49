"""Paper 1, section 4: what the death of a broker, a cluster, the root or the rendezvous point costs, and a cut link."""
