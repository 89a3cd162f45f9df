"""The handlers of all operations, one module per resource."""
