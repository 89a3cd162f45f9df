"""What each operation does, by noun."""
