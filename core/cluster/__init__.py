"""The nodes of one database: their rows, tags and fencing tokens, and the stream directory."""
