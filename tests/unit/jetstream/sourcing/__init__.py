"""Mirrors and sources: what a follower does, step by step."""
