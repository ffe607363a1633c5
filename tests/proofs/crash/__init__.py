"""Processes that are killed in the middle of their work, and what they had been promised.

`PYTHONPATH=tests python -m proofs.crash --rounds 1000` writes, changes, forks, merges, maintains and erases in
one process after another, kills each at a random moment, and compares what a new process finds
with what the killed one had been told.
"""
