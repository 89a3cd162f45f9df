"""Open batches of publishers (ADR-50): atomic batches and fast-ingest batches."""
