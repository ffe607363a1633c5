"""Files: read, cut into passages, found again with page and citation, and replaced."""
