"""What waits while one of two streams has no leader."""

# Subject: API

import pytest

from core.api.held import HeldSubjects
from core.model.stream import StreamConfig

GONE = StreamConfig(name="GONE", subjects=("gone.*", "$KV.gone.>"))
SILENT = StreamConfig(name="SILENT", subjects=("silent",), no_ack=True)
HELD = HeldSubjects([(GONE, 7)], ["LED"])


@pytest.mark.parametrize(
    "subject",
    [
        "gone.1",
        "$KV.gone.key.of.it",
        "$JS.API.STREAM.INFO.GONE",
        "$JS.API.CONSUMER.MSG.NEXT.GONE.c",
        "$JS.API.CONSUMER.CREATE.GONE.c.gone.1",
        "$JS.API.DIRECT.GET.GONE.gone.1",
        "$JS.leaf.API.STREAM.PURGE.GONE",
        "$JS.ACK.GONE.c.1.1.1.1.0",
        "$JS.ACK._.hash.GONE.c.1.1.1.1.0",
        "$JS.FC.GONE.c.x",
        # Their answers depend on all streams.
        "$JS.API.STREAM.NAMES",
        "$JS.API.STREAM.CREATE.NEW",
        "$JG.API.TXN.BEGIN",
    ],
)
def test_requests_for_the_stream_wait(subject: str) -> None:
    assert HELD(subject.encode())
    assert HELD(subject.encode())


@pytest.mark.parametrize(
    "subject",
    [
        "gone",
        "gone.1.2",
        "led.1",
        "$KV.led.key",
        "_INBOX.x.y",
        "$JS.API.STREAM.INFO.LED",
        "$JS.API.CONSUMER.MSG.NEXT.LED.c",
        "$JS.API.DIRECT.GET.LED.led.1",
        "$JS.ACK.LED.c.1.1.1.1.0",
        "$JS.ACK.NEW.c.1.1.1.1.0",
        "$JS.EVENT.ADVISORY.API",
    ],
)
def test_requests_for_other_streams_go_on(subject: str) -> None:
    assert not HELD(subject.encode())


def test_once_sixteen_mebibytes_are_kept_of_a_stream_more_is_refused() -> None:
    held = HeldSubjects([(GONE, 7), (SILENT, 7), (StreamConfig(name="B", subjects=("b",)), 8)], [])
    held.refusable = frozenset({7, 8})
    held.count(b"gone.1", 10 * 2**20)
    held.count(b"$KV.gone.key", 6 * 2**20 - 1)
    assert not held.is_refused(b"gone.1")

    held.count(b"gone.2", 1)
    assert held.full == {"GONE"}
    assert held.is_refused(b"gone.1")
    assert held.is_refused(b"$KV.gone.other")
    # All of them wait none the less, if they are held and not new.
    assert held(b"gone.1")
    # Another stream, and what nobody answers in the place of a leader.
    assert not held.is_refused(b"b")
    assert not held.is_refused(b"$JS.API.STREAM.INFO.GONE")
    held.count(b"silent", 2**30)
    assert not held.is_refused(b"silent")

    held.refusable = frozenset({8})
    assert not held.is_refused(b"gone.1")
    held.refusable = frozenset({7})
    held.count(b"gone.1", -1)  # a client is gone
    assert not held.is_refused(b"gone.1")
    held.count(b"gone.1", 1)
    held.reset()
    assert not held.is_refused(b"gone.1")
