"""A network on Ray: validated, launched, attached to, operated; and its rendezvous point."""
