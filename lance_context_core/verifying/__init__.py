"""Whether a store is whole: its files, its keys, its rows, its indexes and its journal."""
