"""Tests without sockets and without storage."""
