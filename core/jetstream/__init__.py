"""JetStream on the node that leads: streams, consumers and Direct Get around the pure machines."""
