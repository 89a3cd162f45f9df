"""What a started server tells the person in front of it."""

import shlex

import core


def ready(nats: str, http: str, *, ws: str = "", where: str, psql: str, dsn: str) -> str:
    """The addresses, where to look, and three lines to copy.

    Args:
        nats: `nats://host:port`.
        http: `http://host:port`.
        ws: `ws://host:port`; empty if that is not served.
        where: where the data are.
        psql: how to run psql here.
        dsn: the database, as psql takes it.
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
