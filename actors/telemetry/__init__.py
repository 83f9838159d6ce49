"""What hosts wrote down: collected, kept, read."""
