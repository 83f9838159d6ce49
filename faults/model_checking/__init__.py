"""Model checking: the machines that ship, run over all interleavings of a small network up to a stated bound."""
