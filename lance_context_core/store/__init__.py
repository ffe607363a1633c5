"""The store that a user opens: its handles, their stores, and their versions."""
