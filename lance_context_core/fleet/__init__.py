"""Many stores as one: each tenant has its data in one of them, and may move to another."""
