"""Blobs: bytes stored once under their hash, read in parts, and deleted with the last reference."""
