"""Boards of tasks in the journal's database: an index that tells at once what is ready."""
