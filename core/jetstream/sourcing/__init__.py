"""Mirrors and sources: copying messages of other streams (origins) into a stream of this node.

An origin is read like any client reads a stream: with a consumer over the JetStream API.
"""
