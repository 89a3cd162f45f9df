"""Consumers: readers of a stream whose state the server keeps."""
