"""What is measured, against whom, and how to run it again: `python -m benchmarks`."""
