"""What goes wrong, and the judge. Nothing that ships imports it; `simulated` and `real` drive the two hosts."""
