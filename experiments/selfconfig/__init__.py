"""Paper 1, section 4: the cost of a dead broker, cluster, root or rendezvous point, and of a cut link."""
