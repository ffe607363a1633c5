"""What tests of a store are made of."""
