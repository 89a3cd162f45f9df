"""Acknowledgements and the messages that wait for them."""
