"""Makes a failing case small: what is left is what the failure needs."""
