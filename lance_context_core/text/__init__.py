"""What a record is found by: its texts, their words in each language, and whom and which time a question names."""
