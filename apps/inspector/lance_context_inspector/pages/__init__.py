"""The pages, by what one looks for: each function is handed a view and returns what is shown."""
