"""SQL over what a store holds: views of it, read as they are asked for, and nothing else."""
