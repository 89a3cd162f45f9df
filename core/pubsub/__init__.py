"""Core NATS: accounts, their subscriptions, and who gets a published message. No JetStream."""
