"""HTTP resource of streams: create, update, read, purge, delete, and redrive dead letters."""
