"""Message schedules (ADR-51): time patterns, headers, and the schedules that have to fire."""
