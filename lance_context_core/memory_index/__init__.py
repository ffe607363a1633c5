"""The search cache: hot scopes, kept up to date in memory and searched there."""
