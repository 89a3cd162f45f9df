"""The rules for consumer configurations: defaults, validation, allowed updates."""
