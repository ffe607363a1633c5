"""The information layer: what the store holds, as tables of fixed names, for whoever reads tables."""
