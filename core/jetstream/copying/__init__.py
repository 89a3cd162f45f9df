"""Mirrors and sources: one stream filled from others, over the same API that clients use."""
