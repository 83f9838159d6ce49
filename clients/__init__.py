"""What publishers and subscribers do, as machines that both hosts drive: Ray actors and virtual time. Pure."""
