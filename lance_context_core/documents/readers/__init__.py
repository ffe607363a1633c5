"""Readers: from the bytes of a file to its text, and what stands where in it."""
