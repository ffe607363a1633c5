"""The only rooms that know LanceDB."""
