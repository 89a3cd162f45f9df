"""The HTTP façade: a NATS client that speaks REST."""
