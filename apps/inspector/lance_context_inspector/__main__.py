"""`python -m lance_context_inspector PLACE` opens the page."""

from lance_context_inspector.command import ui

ui(prog_name="python -m lance_context_inspector")
