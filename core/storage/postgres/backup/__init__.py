"""Backups of a database: an archive of pg_dump, with checksums of the messages of every stream.

`jetgate backup`, `restore` and `verify` are built on this package.
"""
