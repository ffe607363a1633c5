"""What agents mean to do: texts with versions, which may branch, and the tasks that come of them."""
