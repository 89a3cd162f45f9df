"""The storage in PostgreSQL 15 to 18: its schema, its sessions, its leases and its own server."""
