"""Prometheus metrics of the NATS server and the HTTP server, and the events that they count."""
