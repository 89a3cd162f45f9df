"""The rules for the configuration of a consumer."""
