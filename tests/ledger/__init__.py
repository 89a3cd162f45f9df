"""The ledger: a load, faults, and an offline checker of everything that clients were told."""
