"""Publishers and subscribers as users see them."""
