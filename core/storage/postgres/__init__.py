"""Storage in PostgreSQL 15 to 18: sessions, migration, queries, leases, the embedded server."""
