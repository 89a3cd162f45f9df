"""Plans of changes to a stream, one module for each kind of change."""
