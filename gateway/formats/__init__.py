"""Messages and configurations as JSON and HTTP headers, and the validation of input."""
