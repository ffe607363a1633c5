"""One table of the engine: opened, read, written, indexed."""
