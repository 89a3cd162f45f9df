"""Transactions: the ledger of an app and its staged rows."""
