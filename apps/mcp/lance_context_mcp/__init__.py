"""An MCP server over a store: the memory of any agent that speaks the protocol."""

__version__ = "0.1.0"
