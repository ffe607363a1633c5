"""The stores: short files of verbs over the engine's tables; their synchronous twins are in `sync`."""
