"""Step by step: a run in virtual time as moments, forward and back. It watches and changes nothing."""
