"""Export and import: files with all rows that a handle sees, without loss."""
