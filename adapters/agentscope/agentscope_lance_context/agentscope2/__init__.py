"""Memory, state and knowledge classes for agentscope 2.0.3 and later."""
