"""Where locks are kept, who holds them, and which writes they fence."""
