"""What crosses links, between brokers, the rendezvous point and clients: one file a subject."""
