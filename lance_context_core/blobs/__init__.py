"""Bytes by their hash: kept once, read in parts, and gone with the last thing that names them."""
