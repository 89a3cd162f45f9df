"""Transactions: batches staged in a separate stream and committed by the target's leader."""
