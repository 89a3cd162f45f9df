"""The console: a page at `/` that uses the public routes of the façade and nothing else."""
