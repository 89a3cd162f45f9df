"""HTTP resource of messages: publish, send requests, and read stored messages."""
