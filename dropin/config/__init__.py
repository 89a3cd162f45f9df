"""nats-server's flags and configuration file, read into `Options`."""
