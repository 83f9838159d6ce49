"""Announcement of a broker's filters to its neighbours, with covering and merging."""
