"""Common code of key-value buckets and object stores: configurations, listings, watches."""
