"""Compaction strategies: each turns a plan into a shorter one, without rewriting history."""
