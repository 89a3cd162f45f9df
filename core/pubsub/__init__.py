"""Core NATS: accounts, subscriptions and the flow of messages. No JetStream."""
