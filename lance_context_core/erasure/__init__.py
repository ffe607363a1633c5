"""Erasure: the rows to erase, and the references to them."""
