"""The write-ahead log in a PostgreSQL database: for many machines, or object stores."""
