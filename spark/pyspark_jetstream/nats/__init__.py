"""A blocking NATS client for reading and publishing many messages in Spark tasks.

The client needs no event loop, so tasks use it directly. A read parses the messages of a
subscription into one list for each part (subjects, headers, payloads). The lists become Arrow
columns, without an object for each message.
"""
