"""`python -m lance_context_mcp` is `lance-context-mcp`."""

from lance_context_mcp.command import main

main()
