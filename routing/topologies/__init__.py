"""Topologies: trees of clusters, transit-stub graphs, the geometry of hypercubes, and dissemination plans."""
