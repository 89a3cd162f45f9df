"""Core NATS: accounts, subscriptions, and the delivery of messages to subscribers; no JetStream."""
