"""Routes: the connections between the servers of one cluster, in nats-server's ROUTE protocol."""
