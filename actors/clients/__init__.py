"""Publishers and subscribers, the user-facing clients."""
