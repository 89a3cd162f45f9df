"""Backups: an archive of pg_dump, with sums of every stream's messages by which it is verified."""
