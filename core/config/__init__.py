"""The configuration code that both commands share: grammar, mappings, listening sockets."""
