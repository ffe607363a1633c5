"""Search engines besides LanceDB: what they are told, and which of them is asked."""
