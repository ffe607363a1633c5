"""What is stored, to rows and back: one file a table."""
