"""The store as what agentscope 1.0.14 to 1.x keeps an agent's memory, session and knowledge in."""
