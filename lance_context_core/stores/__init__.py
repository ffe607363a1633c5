"""The stores: their methods over the engine's tables; blocking counterparts are in `sync`."""
