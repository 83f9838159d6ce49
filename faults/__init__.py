"""What goes wrong and the answer, and the judge of what was delivered (papers 1 and 4)."""
