"""Which lease groups a node owns: states, placement, transfer. `core.node` specifies it."""
