"""Core NATS: accounts, their subscriptions, and the receivers of messages. No JetStream."""
