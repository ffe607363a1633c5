"""Key-value items: their verbs, and their writing."""
