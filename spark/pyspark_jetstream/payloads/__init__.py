"""Payloads as columns of a type, by the rules of Spark's `from_json`."""
