"""The journal: small writes, acknowledged at the price of a row, until they are folded into the tables."""
