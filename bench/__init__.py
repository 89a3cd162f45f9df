"""jetgate against nats-server in one run, by one load generator: `python -m bench`."""
