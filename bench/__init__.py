"""Benchmarks of jetgate, also in comparison with nats-server; start with `python -m bench`."""
