"""Benchmarks that compare jetgate with nats-server, by one load generator: `python -m bench`."""
