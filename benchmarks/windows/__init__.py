"""Benchmarks of windows: evidence, stability vs. the peers, and the cost of a long session."""
