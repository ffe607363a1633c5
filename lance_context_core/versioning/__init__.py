"""Versions of the whole store: branches, merges, differences, and pruning."""
