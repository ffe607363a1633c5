"""What windows are measured by: evidence, stability beside the peers, and what a long session costs."""
