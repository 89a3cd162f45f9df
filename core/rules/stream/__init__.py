"""The rules of streams: configuration, publishes, limits, schedules. No I/O, no clock."""
