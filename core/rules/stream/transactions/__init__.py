"""Transactions: the ledger of an application's batches, and decoding their staged rows."""
