"""Strategies that make a conversation shorter: each turns a plan into another, and rewrites no history."""
