"""Memory, session and knowledge classes for agentscope 1.0.14 to 1.x."""
