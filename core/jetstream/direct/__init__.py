"""Direct Get (ADR-31)."""
