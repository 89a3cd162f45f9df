"""The rules of consumers, one behaviour per test."""
