"""The LanceDB layer: tables, versions, branches, indexes, compaction and erasure."""
