"""The store and its peers at the same work, in one table: `python -m benchmarks.field`."""
