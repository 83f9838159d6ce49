"""A broker, and how it lives on Ray: host, links, group, rendezvous, clients, network."""
