"""What outlives a crash: stores, their codec, numbered links and their journal, durable subscribers (paper 4)."""
