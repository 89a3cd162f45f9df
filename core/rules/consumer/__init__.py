"""Consumers as state machines: deliveries, pending messages, acknowledgements. No I/O, no clock."""
