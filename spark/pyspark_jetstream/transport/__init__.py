"""Two ways to read streams: `sql` from PostgreSQL, `nats` from a JetStream server."""

from pyspark_jetstream.options import ConnectionOptions
from pyspark_jetstream.transport.base import Transport


def open_transport(connection: ConnectionOptions) -> Transport:
    """Open the transport that the option `transport` names; the caller closes it.

    Neither transport connects before its first read.
    """
    if connection.transport == "nats":
        from pyspark_jetstream.transport.nats import NatsTransport

        assert connection.nats is not None, "checked with the options"
        return NatsTransport(connection.nats)
    from pyspark_jetstream.transport.sql import SqlTransport

    return SqlTransport(connection)
