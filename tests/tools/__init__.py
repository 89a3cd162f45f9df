"""Commands that check or list names, docstrings, documents and test subjects of the repository."""
