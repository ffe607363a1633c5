"""Out of a store and into another one: files that hold all that a handle sees, to the last bit."""
