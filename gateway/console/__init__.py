"""The web console: an HTML page at `/` that uses only the public HTTP operations."""
