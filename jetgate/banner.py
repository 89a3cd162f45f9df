"""The text that a started server prints for its operator."""

import shlex

import core


def ready(nats: str, http: str, *, ws: str = "", where: str, psql: str, dsn: str) -> str:
    """Return the addresses, the place of the data, and three commands to copy.

    Args:
        nats: `nats://host:port`.
        http: `http://host:port`.
        ws: `ws://host:port`; empty if WebSocket is not served.
        where: Place of the data.
        psql: Command of psql on this machine.
        dsn: The database, as an argument of psql.
    """
    query = "select seq, subject, time, text from jetgate.latest('ORDERS')"
    websocket = f"\n  WS    {ws}" if ws else ""
    return f"""\
jetgate {core.__version__} is ready ({where})
  NATS  {nats}
  HTTP  {http}{websocket}
  Look  {http}/  (the console, in a browser)
Try it:
  curl -X PUT {http}/v1/streams/ORDERS -H 'Content-Type: application/json' -d '{{"subjects": ["orders.>"], "allow_direct": true}}'
  curl -d 'hello' {http}/v1/subjects/orders.new
  {shlex.quote(psql)} {dsn} -c "{query}"
"""  # noqa: E501 (a line to copy stays a line)
