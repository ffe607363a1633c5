"""Records: what history, memory and the record API share, and the record API itself."""
