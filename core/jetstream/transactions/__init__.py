"""Transactions: rows staged in a separate stream, then committed to the target by its leader.

An application stages the rows of a batch as messages of the staging stream. Its COMMIT request
names these messages; the leader of the target stream then stores the rows exactly once.
"""
