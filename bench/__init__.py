"""Benchmarks that compare jetgate with nats-server, with one load generator: `python -m bench`."""
