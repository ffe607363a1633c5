"""Helpers without a subject of their own: checks, retries, bounded caches, optional imports."""
