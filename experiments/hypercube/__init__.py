"""Paper 2: the load of a hypercube of brokers, the distance of events in it, and what a moving subscriber saves."""
