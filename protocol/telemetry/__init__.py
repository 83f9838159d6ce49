"""What a network writes down about itself: the tables, and what a host fills them with."""
