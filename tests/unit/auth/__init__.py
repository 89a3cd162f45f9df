"""Users and permissions."""
