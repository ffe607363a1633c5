"""Scopes that are searched in the process: what of them is in memory, and how it is kept fresh."""
