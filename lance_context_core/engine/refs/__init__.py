"""Versions of a table, and what is named among them: branches and tags."""
