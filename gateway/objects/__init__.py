"""Object stores: objects, uploads, downloads, watches (ADR-20)."""
