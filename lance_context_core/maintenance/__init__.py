"""Maintenance: schedules, claims, and compaction."""
