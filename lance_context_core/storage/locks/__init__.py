"""The storage of locks, their renewal, and the fencing of writes."""
