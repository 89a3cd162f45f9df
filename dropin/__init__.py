"""The command `jetgate-nats-server`: nats-server's command line, configuration, signals and log."""
