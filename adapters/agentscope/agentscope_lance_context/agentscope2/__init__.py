"""The store as what agentscope 2.0.3 and later keeps an agent's memory, state and knowledge in."""
