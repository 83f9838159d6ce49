"""Who is in the network, and where this broker stands in it: on a tree of clusters, or in a view."""
