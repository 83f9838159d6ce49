"""What people look at: pictures, the page, the files of a report."""
