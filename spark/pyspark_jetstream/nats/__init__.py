"""A blocking client of the NATS protocol that keeps messages in columns.

The client needs no event loop, so tasks of Spark use it directly. One pass over a large read parses
messages into lists of slices, which become Arrow columns without an object for each row.
"""
