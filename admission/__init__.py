"""Whether a subscription may enter: demand, capacity, decision (paper 3)."""
