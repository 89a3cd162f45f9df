"""Key-value buckets: keys, values, history, watches (ADR-8)."""
