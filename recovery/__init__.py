"""What keeps a network alive: who is a member, what is sent again, what is stored. Pure, but for the stores."""
