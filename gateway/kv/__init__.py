"""HTTP resource of key-value buckets (ADR-8): keys, values, history and watches."""
