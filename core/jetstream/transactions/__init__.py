"""Transactions: batches that are staged in a stream of their own and promoted by the leader."""
