"""Routes: the connections between the servers of one cluster, in nats-server's route protocol.

The nodes of one database connect to each other by routes too.
"""
