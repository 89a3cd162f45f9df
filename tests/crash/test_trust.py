"""A leader that is cut off from PostgreSQL during a takeover: it confirms and delivers nothing.

Otherwise it would deliver messages that its successor has acknowledged, and report them as pending.
"""

# Subject: leadership, crashes

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import parse_qs, urlsplit

from core.storage.postgres.embedded.directory import SOCKET_NAME
from core.storage.postgres.locks import LEASE_GROUPS
from tests.histories.proxy import Proxy
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer
from tests.support.nodes import numbers
from tests.support.pg import PostgresServer
from tests.support.ports import held_port
from tests.support.wire import Frame, Wire

_STREAM = {"name": "S", "subjects": ["s.>"], "allow_direct": True}
_CONSUMER = {"stream_name": "S", "config": {"durable_name": "C", "ack_policy": "all"}}


def _pull(wire: Wire, expires: int) -> Frame:
    """Return the message, or the status, that answers a pull request; `expires` is in seconds."""
    body = b'{"batch":1,"expires":%d000000000}' % expires
    return wire.request("$JS.API.CONSUMER.MSG.NEXT.S.C", body)


def _prepare(wire: Wire) -> None:
    wire.api("STREAM.CREATE.S", _STREAM)
    wire.api("CONSUMER.CREATE.S.C", _CONSUMER)
    for i in range(5):
        assert wire.request("s.x", b"%d" % i).json()["seq"] == i + 1


def test_a_leader_that_is_cut_off_delivers_nothing_and_answers_nothing() -> None:
    with ExitStack() as stack:
        dsn = stack.enter_context(PostgresServer(settings={"fsync": "on"})).fresh_database()
        parts = urlsplit(dsn)
        place = f"{parse_qs(parts.query)['host'][0]}/{SOCKET_NAME}"
        way = stack.enter_context(Proxy(place))
        behind = f"postgresql://postgres@127.0.0.1:{way.port}{parts.path}?sslmode=disable"
        # No server listens there, so that the nodes cannot reach each other either.
        nowhere = stack.enter_context(held_port()).getsockname()[1]
        advertise = ("--cluster-advertise", f"127.0.0.1:{nowhere}")
        first = stack.enter_context(JetgateServer(*advertise, dsn=behind))
        second = JetgateServer(dsn=dsn)
        stack.callback(second.stop)
        pool = stack.enter_context(ThreadPoolExecutor(1))
        old = stack.enter_context(Wire(first.address))
        old.hello()
        _prepare(old)

        waiting = pool.submit(second.start)
        way.hold(to_database=True, to_node=True)
        waiting.result()
        eventually(lambda: numbers(second)["jetgate_lease_groups"] == LEASE_GROUPS, within=60)
        with Wire(second.address) as new:
            new.hello()
            delivered = _pull(new, 30)
            assert delivered.payload == b"0"
            new.request(delivered.reply.decode(), b"+ACK")
            assert new.request("s.x", b"5").json()["seq"] == 6

        expected = b"NATS/1.0\r\nNats-Expected-Last-Sequence: 6\r\n\r\n"
        publisher = stack.enter_context(Wire(first.address))
        publisher.hello()
        publisher.send(b"SUB answer 1\r\n")
        publisher.publish("s.x", b"6", reply=b"answer", headers=expected)
        # By this node's state the expected sequence is wrong.
        assert publisher.until_silence(1.0) == []

        refused = old.request("$JS.API.CONSUMER.INFO.S.C").json()
        assert refused["error"]["err_code"] == 10008
        assert b" 408 " in _pull(old, 1).headers
        direct = old.request("$JS.API.DIRECT.GET.S", json.dumps({"seq": 2}).encode())
        assert direct.payload == b"1"

        way.heal()

        def floor() -> int:
            info = old.request("$JS.API.CONSUMER.INFO.S.C").json()
            return int(info["ack_floor"]["stream_seq"]) if "error" not in info else 0

        eventually(lambda: floor() == 1, within=60)  # from the other node, on the same connection
        assert publisher.flush() == []
        assert publisher.request("s.x", b"6", headers=expected).json()["seq"] == 7


def test_deliveries_go_on_when_the_leadership_is_confirmed_again() -> None:
    with ExitStack() as stack:
        postgres = stack.enter_context(PostgresServer(settings={"fsync": "on"}))
        dsn = postgres.fresh_database()
        parts = urlsplit(dsn)
        place = f"{parse_qs(parts.query)['host'][0]}/{SOCKET_NAME}"
        way = stack.enter_context(Proxy(place))
        behind = f"postgresql://postgres@127.0.0.1:{way.port}{parts.path}?sslmode=disable"
        server = stack.enter_context(JetgateServer(dsn=behind))
        wire = stack.enter_context(Wire(server.address))
        wire.hello()
        _prepare(wire)

        way.disconnect()
        eventually(lambda: "error" in wire.request("$JS.API.STREAM.INFO.S").json(), within=60)
        wire.send(b"SUB in 77\r\n")
        wire.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", b'{"batch":2}', reply=b"in")
        wire.flush()
        way.heal()

        assert [wire.frame().payload for _ in range(2)] == [b"0", b"1"]
        assert wire.api("STREAM.INFO.S")["state"]["messages"] == 5
