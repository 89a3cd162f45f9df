"""The client without a server."""
