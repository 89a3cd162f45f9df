"""Very many of everything, and whether what they used comes back."""
