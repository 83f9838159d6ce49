"""What may have been lost is sent again in rounds, and nothing is delivered twice."""
