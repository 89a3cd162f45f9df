"""ADR-15, sentence by sentence."""
