"""Prompts with variables, which agents keep, change and fill in."""
