"""What a user opens: one place, what each of its handles is asked and knows of versions, and what it hands out."""
