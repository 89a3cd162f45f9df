"""The transports: `sql` directly from PostgreSQL, `nats` over the official protocol."""

from pyspark_jetstream.options import ConnectionOptions
from pyspark_jetstream.transport.base import Transport


def open_transport(connection: ConnectionOptions) -> Transport:
    """Open the transport that the options name; the caller closes it. Raises NotReachable."""
    if connection.transport == "nats":
        from pyspark_jetstream.transport.nats import NatsTransport

        assert connection.nats is not None, "checked with the options"
        return NatsTransport(connection.nats)
    from pyspark_jetstream.transport.sql import SqlTransport

    return SqlTransport(connection)
