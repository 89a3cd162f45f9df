"""The other nodes of one database: their rows, tags and claims, and the stream directory."""
