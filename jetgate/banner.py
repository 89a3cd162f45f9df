"""The text that `jetgate dev` and `jetgate serve` print when clients are served."""

import shlex

import core


def ready(nats: str, http: str, *, ws: str = "", where: str, psql: str, dsn: str) -> str:
    """Return the text: the server's addresses, the place of the data, and three commands to copy.

    Args:
        nats: `nats://host:port`.
        http: `http://host:port`.
        ws: `ws://host:port`; empty if WebSocket is not served.
        where: Place of the data: the directory, or the address of PostgreSQL.
        psql: Command or path of psql on this machine.
        dsn: Connection string of the database, quoted for the shell.
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
