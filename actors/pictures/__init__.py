"""A network as a picture: where its brokers stand, who has died, what went over each link."""
