"""Brokers on Ray: host, links, group, rendezvous point, clients, network."""
