"""Tools for readers of the code; they do not test the product."""
