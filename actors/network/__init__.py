"""A network on Ray: validation, launch, attachment, operation, and the rendezvous point."""
