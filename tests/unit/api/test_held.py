"""What waits while one of two streams has no leader."""

import pytest

from core.api.held import HeldSubjects
from core.model.stream import StreamConfig

HELD = HeldSubjects([StreamConfig(name="GONE", subjects=("gone.*", "$KV.gone.>"))], ["LED"])


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
def test_what_is_for_the_stream_waits(subject: str) -> None:
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
def test_what_is_for_others_goes_on(subject: str) -> None:
    assert not HELD(subject.encode())
