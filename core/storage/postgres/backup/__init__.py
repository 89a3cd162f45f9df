"""Backups: an archive of pg_dump with checksums of every stream's messages, to verify it."""
