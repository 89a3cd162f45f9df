"""Consumers on the node that leads their stream: deliveries, acknowledgements, stored state."""
