"""Mirrors and sources: filling one stream from others, over the API that clients use."""
