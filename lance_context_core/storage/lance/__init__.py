"""The files of a table: merged, synced, and rid of what was erased."""
