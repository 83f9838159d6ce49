"""A network as a picture: the places of its brokers, the dead ones, and the events over each link."""
