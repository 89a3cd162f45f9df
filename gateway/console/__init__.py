"""The console: a page at `/` that uses only the public routes of the façade."""
