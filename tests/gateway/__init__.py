"""The HTTP façade seen from outside."""
