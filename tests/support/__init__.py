"""Helpers that several suites use: raw sockets, servers under test, waiting for observations."""
