"""A local page in the browser to look at a store of lance-context with."""

__version__ = "0.1.0"
