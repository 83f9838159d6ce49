"""A network as a picture: the places of its brokers, dead brokers, and the traffic over each link."""
