"""Erasure: what is meant by it, and what refers to it."""
