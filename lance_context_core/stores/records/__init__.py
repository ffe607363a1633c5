"""Records: the record API, and the common base of history and memory."""
