"""Tools for reading the code: they judge nothing of the product."""
