"""Messages: publishing, requests with replies, and reading stored messages."""
