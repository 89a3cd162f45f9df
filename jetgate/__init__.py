"""The command `jetgate`."""
