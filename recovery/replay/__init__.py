"""Replay: events that may have been lost are retransmitted in rounds, and no event is delivered twice."""
