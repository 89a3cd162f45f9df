"""The command `jetgate`: a server for production and development, and tools for operators."""
