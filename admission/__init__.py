"""Admission control: demand, capacity, and the decision whether a subscription is admitted (paper 3)."""
