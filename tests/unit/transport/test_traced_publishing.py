"""Message traces: how the report is packed, and what no transcript shows."""

# Subject: protocol, message tracing

import asyncio
import gzip
import json
from typing import Any

from core.pubsub.server import Hub
from core.transport.session import ClientSession
from tests.support.sessions import IdleTick, ListSession, ManualClock, Socket, listen
from tests.unit.transport.test_session import CONNECT

ASKS = b"NATS/1.0\r\nNats-Trace-Dest: td\r\n\r\n"


def hpub(subject: bytes, headers: bytes, payload: bytes = b"x") -> bytes:
    sizes = (len(headers), len(headers) + len(payload))
    return b"HPUB %b %d %d\r\n%b%b\r\n" % (subject, *sizes, headers, payload)


def report(frame: bytes) -> Any:
    """The report in a MSG or HMSG."""
    line, _, body = frame.partition(b"\r\n")
    cut = int(line.split()[-2]) if line.startswith(b"HMSG") else 0
    payload = body[cut:-2]
    return json.loads(gzip.decompress(payload) if cut else payload)


def steps(told: Any) -> list[tuple[str, str]]:
    return [(event["type"], event.get("error", "")) for event in told["events"]]


class Client:
    """A session on a hub of its own, and somebody who listens to reports."""

    def __init__(self) -> None:
        self.hub = Hub(IdleTick(), ManualClock())
        self.session = ClientSession(self.hub)
        self.session.connection_made(Socket())
        self.session.data_received(CONNECT)
        self.hub.loop_tick.run()
        self.told = ListSession(client_id=77)
        listen(self.hub.default_account(), self.told, b"td")

    def publish(self, *messages: bytes) -> Any:
        """Publish in one read; the last report."""
        self.session.data_received(b"".join(messages))
        return report(self.told.drain())


def in_a_loop(test: Any) -> None:
    async def main() -> None:
        test()

    asyncio.run(main())


def test_a_report_is_compressed_for_callers_that_accept_it() -> None:
    def check() -> None:
        client = Client()
        block = ASKS[:-2] + b"Accept-Encoding: deflate, gzip\r\n\r\n"

        told = client.publish(hpub(b"a", block))

        assert told["request"]["header"]["Accept-Encoding"] == ["deflate, gzip"]
        assert steps(told) == [("in", "")]

    in_a_loop(check)


def test_a_message_is_traced_wherever_the_read_is_cut() -> None:
    def check() -> None:
        client = Client()
        plain = hpub(b"a", b"NATS/1.0\r\nA: b\r\n\r\n") * 40
        data = plain + hpub(b"a", ASKS) + plain + hpub(b"b", ASKS)
        for cut in (len(data), len(plain) + 20, len(plain) + 60, 7):
            for start in range(0, len(data), cut):
                client.session.data_received(data[start : start + cut])
            told = client.told.drain()
            assert told.count(b'"subj":"a"') == told.count(b'"subj":"b"') == 1
        assert client.session.count().in_msgs == 4 * 82

    in_a_loop(check)


def test_a_client_that_is_gone_in_the_middle_is_reported() -> None:
    def check() -> None:
        client = Client()
        gone = ListSession(client_id=5)
        listen(client.hub.default_account(), gone, b"a")
        gone.closed = True

        told = client.publish(hpub(b"a", ASKS))

        assert steps(told) == [("in", ""), ("eg", "Not delivered because client is closed")]

    in_a_loop(check)


def test_the_next_member_of_a_queue_group_gets_what_the_first_may_not_have() -> None:
    def check() -> None:
        client = Client()
        account = client.hub.default_account()
        gone, here = ListSession(client_id=5), ListSession(client_id=6)
        gone.closed = True
        for session in (gone, here):
            listen(account, session, b"a", queue=b"q")

        for _ in range(20):
            told = client.publish(hpub(b"a", ASKS))
            assert steps(told)[-1] == ("eg", "")
            assert told["events"][-1]["cid"] == 6
            assert len(here.drain()) > 0

    in_a_loop(check)
