"""The command line of lance-context: `lance-ctx`."""

__version__ = "0.1.0"
