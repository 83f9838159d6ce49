"""Who is joined to whom: trees of clusters, transit-stub graphs, the geometry of cubes, plans of dissemination."""
