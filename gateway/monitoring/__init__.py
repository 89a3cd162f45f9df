"""Prometheus metrics of the NATS server and the HTTP façade, and the events that they count."""
