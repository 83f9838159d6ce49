"""A network on Ray: checked, launched, joined, operated, and its rendezvous point."""
