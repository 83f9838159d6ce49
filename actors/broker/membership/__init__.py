"""Who is in the network, and the place of this broker in it: in a tree of clusters, or in a view."""
