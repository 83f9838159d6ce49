"""The messages between brokers, the rendezvous point and clients: one file per subject."""
