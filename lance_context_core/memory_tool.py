"""Anthropic's memory tool: now in `lance_context_anthropic`, a distribution of its own."""

from lance_context_core._util.extras import moved

with moved("lance_context_core.memory_tool", to="lance-context-anthropic"):
    from lance_context_anthropic import *  # noqa: F403
    from lance_context_anthropic import __all__  # noqa: F401
