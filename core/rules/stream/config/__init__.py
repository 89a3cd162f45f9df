"""The rules for stream configurations: defaults, validation, allowed updates."""
