"""Agents that work together: who holds what, and what is to be done by whom."""
