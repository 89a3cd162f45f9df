"""Acknowledgements of a consumer's messages, and the messages that wait for them."""
