"""Configuration code that both servers share: grammar of files, mappings, listening sockets."""
