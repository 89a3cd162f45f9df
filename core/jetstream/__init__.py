"""JetStream on a node that leads: the streams, consumers and Direct Get around pure machines."""
