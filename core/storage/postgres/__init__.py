"""Storage in PostgreSQL 15 to 18: the schema, the queries, leases, the embedded server."""
