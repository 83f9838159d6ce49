"""Output for people: pictures, the page, the files of a report."""
