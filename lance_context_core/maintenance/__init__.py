"""Upkeep: what is due, who does it, and the merging of files."""
