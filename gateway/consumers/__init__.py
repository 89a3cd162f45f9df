"""HTTP resource of consumers: create, update, delete, fetch messages, acknowledge."""
