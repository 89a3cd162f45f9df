"""Direct Get (ADR-31): reads of single and multiple messages of a stream, without a consumer."""
