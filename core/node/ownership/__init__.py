"""The ownership of lease groups: states, placement, transfer. `core.node` has the specification."""
