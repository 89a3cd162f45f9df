"""Kill the server again and again, then check what it promised."""
