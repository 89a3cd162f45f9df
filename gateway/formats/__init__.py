"""Conversion of messages and configurations to JSON and HTTP headers, and validation of input."""
