"""How the store grows: `python -m benchmarks.scale`."""
