"""Brokers on Ray: host, links, group, rendezvous point, clients, network."""

import logging

# In a notebook Ray says, when it is imported, that packages are missing which are not needed here.
logging.getLogger("ray.widgets").setLevel(logging.WARNING)
