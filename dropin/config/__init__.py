"""Parser of nats-server's flags and configuration file into `Options`."""
