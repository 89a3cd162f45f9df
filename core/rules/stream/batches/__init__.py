"""Open batches of publishers (ADR-50), before and while their messages are stored."""
