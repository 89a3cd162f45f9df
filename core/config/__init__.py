"""What the commands share: the grammar of configuration files, mappings, listening sockets."""
