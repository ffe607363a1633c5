"""What is to be done, by whom, and in which order."""
