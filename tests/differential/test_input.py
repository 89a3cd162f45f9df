"""Numbers, durations, times and JSON of clients, parsed as nats-server parses them.

Each table is sent to nats-server, and passed to jetgate's function for such input.
"""

# Subject: API

from typing import Any

import pytest

from core.model.consumer import ConsumerConfig
from core.model.gotime import UnwritableTime, format_zoned, parse_time
from core.rules.consumer.acks.payloads import nak_delay, parse
from core.rules.consumer.pull.requests import BadRequest, read_request
from core.rules.stream.headers import expected_sequence
from tests.differential.common import HOUR
from tests.support.natsserver import NatsServer
from tests.support.wire import Wire

H = HOUR
NAKS = (
    b"", b"{}", b"null", b"[]", b"[%d]" % H, b"%d" % H, b"0", b"1", b"+", b"-", b"-0",
    b'{"delay":%d}' % H, b'{"Delay":%d}' % H, b'{"DELAY": %d}' % H, b'{"d\\u0065lay":%d}' % H,
    b'{"delay":1,"delay":%d}' % H, b'{"delay":%d,"delay":1}' % H, b'{"delay":1,"Delay":%d}' % H,
    b'{"Delay":%d,"delay":1}' % H, b'{"delay":null}', b'{"delay":%d,"delay":null}' % H,
    b'{"delay":3.6e12}', b'{"delay":%d.0}' % H, b'{"delay":"1h"}', b'{"delay":true}',
    b'{"delay":%d} x' % H, b'{"delay":%d}{"delay":1}' % H, b'{"delay":%d}\n' % H,
    b'{"delay":9223372036854775807}', b'{"delay":9223372036854775808}', b'{"delay":-1}',
    b'{"delay":%d,"x":[1,{"y":1e999}]}' % H, b'{"delay":%d,"x":"\xff"}' % H,
    b'{"delay":%d,"x":"\\ud800"}' % H, b'{"delay":%d,}' % H, b"{'delay':%d}" % H,
    b'{"delay":0%d}' % H, b'{"delay":+%d}' % H, b'{"delay":%d' % H, b'\xef\xbb\xbf{"delay":%d}' % H,
    b"1h", b"1H", b"+1h", b"-1h", b"1h1", b".5h", b"1.h", b".h", b"1.5h", b"1h 2m", b"1e3s",
    b" 1h ", b"\t1h\n", b"\x0b1h", b"\xc2\xa01h\xe2\x80\xa8", b"\xe2\x80\x8b1h", b"\x1c1h",
    b"1_000s", "１h".encode(), "1ｈ".encode(), "3600000000µs".encode(), "3600000000μs".encode(),
    b"9223372036s", b"9223372037s", b"9223372036854775807ns", b"9223372036854775808ns",
    b"1h\x00", b"1d", b'"1h"', b"00h", b"0.99999999999999999999h",
)  # fmt: skip

TIMES = (
    "2024-01-02T03:04:05Z", "2024-01-02T03:04:05+02:00", "2024-01-02T03:04:05-00:00",
    "2024-01-02T03:04:05.123456789+05:30", "2024-01-02T03:04:05.500-08:00",
    "2024-01-02T03:04:05-23:59", "1969-12-31T23:59:59.5-00:30", "2024-01-02T03:04:05,5Z",
    "2024-01-02t03:04:05Z", "2024-01-02T03:04:05z", "2024-01-02 03:04:05Z",
    "2024-01-02T03:04:60Z", "2024-01-02T3:04:05Z", "2024-01-02T03:4:05Z", "2024-1-02T03:04:05Z",
    "2024-01-02T24:00:00Z", "2024-01-02T03:60:05Z", "2024-13-02T03:04:05Z", "2024-00-02T03:04:05Z",
    "2024-01-00T03:04:05Z", "2024-02-30T00:00:00Z", "2023-02-29T00:00:00Z", "2024-02-29T00:00:00Z",
    "2024-01-02T03:04:05+24:00", "2024-01-02T03:04:05+25:00", "2024-01-02T03:04:05+23:60",
    "2024-01-02T03:04:05+23:61", "2024-01-02T03:04:05+25:61", "2024-01-02T03:04:05+0200",
    "2024-01-02T03:04:05+2:00", "2024-01-02T03:04:05", "2024-01-02T03:04:05Zx", "", "x",
    "２０２４-01-02T03:04:05Z", "2024-01-02T03:04:05.１Z", "2024-01-02T0３:04:05Z",
    "2024-01-02T03:04:05+0２:00", "2024-01-02T03:04:05\u22122:00", '2024-01-02T03:04:05"\\',
    " 2024-01-02T03:04:05Z", "2024-01-02T03:04:05Z ", "2024-01-02T03:04:05.Z",
    "2024-01-02T03:04:05.1234567890123Z", "2024-01-02T03:04:05.120Z", "-2024-01-02T03:04:05Z",
    "0000-01-01T00:00:00Z", "0000-02-29T00:00:00Z", "0001-01-01T00:00:00+01:00",
    "0000-12-31T23:59:59+01:00", "9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59-01:00",
    "10000-01-01T00:00:00Z", "2300-01-01T00:00:00Z", "1600-01-01T00:00:00Z",
)  # fmt: skip

NUMBERS = (
    "0", " 0", "0 ", "\t0", "+0", "-0", "00", "0_0", "0x0", "0e0", "0.0", "x", "０", "⁰",
    "0000000000000000000000000000", "18446744073709551616", "36893488147419103232",
    "0\0", "\x0c0", "\u00a00",
)  # fmt: skip

PULLS = (
    b"", b"2", b" 2 ", b"\xc2\xa02", b"+2", b"02", b"2.0", b"2e0", b"x", "２".encode(), b"1_0",
    b"00000000000000000000002", b'{"batch":2,"no_wait":true}', b'{"Batch":2,"NO_WAIT":true}',
    b'{"batch":2,"batch":1,"no_wait":true}', b'{"batch":1,"Batch":2,"no_wait":true}',
    b'{"batch":2,"no_wait":true} x', b'{"batch":2.0,"no_wait":true}',
    b'{"batch":"2","no_wait":true}', b'{"batch":2,"no_wait":null}', b'{"batch":2,"no_wait":1}',
    b'{"batch":2,"no_wait":true,"x":[1,{}]}', b'{"batch":2,"no_wait":true,"group":"\xff"}',
    b'{"batch":99999999999999999999,"no_wait":true}', b'{"batch":2,"no_wait":true,}', b"[]",
    b"null", b'{"batch":02,"no_wait":true}', b'{"no_wait":true,"expires":"1s"}',
)  # fmt: skip


STREAM = {"name": "IN", "subjects": ["input", "input.*"]}


@pytest.fixture
def wire(nats_server: NatsServer) -> Any:
    with Wire(nats_server.address) as wire:
        wire.hello()
        assert "error" not in wire.api("STREAM.CREATE.IN", STREAM)
        yield wire
        wire.api("STREAM.DELETE.IN")


def test_the_delay_of_a_nak(wire: Wire) -> None:
    """A message with a Nak delay of one hour is not delivered to the next request."""
    consumer = {"name": "C", "ack_policy": "explicit"}
    wire.api("CONSUMER.CREATE.IN.C", {"stream_name": "IN", "config": consumer})
    pull = "$JS.API.CONSUMER.MSG.NEXT.IN.C"
    for argument in NAKS:
        wire.request("input", b"x")
        delivered = wire.request(pull, b"1")
        wire.publish(delivered.reply.decode(), b"-NAK " + argument)

        delay = nak_delay(parse(b"-NAK " + argument)[1])

        again = wire.request(pull, b'{"batch":1,"expires":50000000}')
        is_soon = delay is None or delay < HOUR // 2
        assert again.reply.startswith(b"$JS.ACK") == is_soon, argument
        wire.request(delivered.reply.decode(), b"+TERM")


def test_times(wire: Wire) -> None:
    """Times keep the zone in which they are written; errors equal those of nats-server."""
    for place, text in enumerate(TIMES):
        config = {"name": f"C{place}", "deliver_policy": "by_start_time", "opt_start_time": text}
        asked = {"stream_name": "IN", "config": config | {"ack_policy": "none"}}
        answer = wire.api(f"CONSUMER.CREATE.IN.C{place}", asked)
        try:
            shown, error = format_zoned(parse_time(text)), ""
        except UnwritableTime:
            shown, error = "", "error creating store for consumer"
        except ValueError as refusal:
            shown, error = "", f"invalid JSON: {refusal}"
        assert answer.get("error", {}).get("description", "") == error, text
        assert error or answer["config"]["opt_start_time"] == shown, text


def test_sequences_in_headers(wire: Wire) -> None:
    """`Nats-Expected-Last-Subject-Sequence` is accepted or refused, on a separate subject each."""
    for place, text in enumerate(NUMBERS):
        subject = f"input.{place}"
        value = text.encode()
        block = b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence:" + value + b"\r\n\r\n"
        answer = wire.request(subject, b"x", headers=block).json()
        assert ("error" not in answer) == (expected_sequence(value.lstrip(b" ")) == 0), value


def test_requests_for_messages(wire: Wire) -> None:
    """A request returns the number of messages, or the status that refuses it."""
    for _ in range(2):
        wire.request("input", b"x")
    for place, body in enumerate(PULLS):
        consumer = {"name": f"C{place}", "ack_policy": "none"}
        wire.api(f"CONSUMER.CREATE.IN.C{place}", {"stream_name": "IN", "config": consumer})
        wire.send(b"SUB pulled.%d p%d\r\n" % (place, place))
        wire.publish(f"$JS.API.CONSUMER.MSG.NEXT.IN.C{place}", body, reply=b"pulled.%d" % place)
        frames = wire.until_silence(0.05)
        try:
            wanted, status = read_request(body, b"r", 0, ConsumerConfig()).batch, b""
        except BadRequest as refusal:
            wanted, status = 0, refusal.line
        delivered = [frame for frame in frames if b"$JS.ACK" in frame.line]
        assert len(delivered) == min(wanted, 2), body
        assert status in (frames[-1].headers if frames else b""), body
