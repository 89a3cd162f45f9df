"""The rules of consumers: configuration, deliveries, pending messages, acks. No I/O, no clock."""
