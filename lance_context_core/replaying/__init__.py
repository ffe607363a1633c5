"""What would have been recalled then, and in another way: asked again, and compared."""
