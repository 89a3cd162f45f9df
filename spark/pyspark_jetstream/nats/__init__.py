"""A blocking client of the NATS protocol that keeps messages in columns.

It needs no event loop, so tasks of Spark use it as it is. What arrives is parsed in one pass over
large reads into lists of slices, which become Arrow columns without an object for each row.
"""
