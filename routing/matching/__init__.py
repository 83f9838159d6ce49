"""Which filters, and so which links, want an event: the index, the routing table, and filters ordered by "covers"."""
