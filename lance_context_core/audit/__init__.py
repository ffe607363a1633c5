"""Audit log: writes, changes, merges, erasures and reads in a tamper-evident hash chain."""
