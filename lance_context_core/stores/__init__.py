"""The stores: short files of verbs over the engine's tables; their blocking counterparts are in `sync`."""
