"""The write-ahead log: commits small writes as single rows until a flush."""
