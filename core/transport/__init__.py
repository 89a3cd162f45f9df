"""Sockets to sessions."""
