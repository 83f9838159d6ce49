"""What a run of chaos draws from its seed: networks, clients, and plans of faults."""
