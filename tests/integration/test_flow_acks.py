"""Acknowledgement by flow control (ADR-60), on both servers."""

# Subject: push consumers

from tests.support.consumer_bench import Bench
from tests.support.wire import Frame


def _until_request(bench: Bench) -> tuple[list[bytes], Frame]:
    """Payloads delivered before the next flow-control request, and the request."""
    payloads: list[bytes] = []
    while True:
        frame = bench.wire.frame()
        if b"FlowControl" in frame.headers:
            return payloads, frame
        if frame.payload:
            payloads.append(frame.payload)


def _answer(bench: Bench, request: Frame, cseq: int, sseq: int) -> None:
    block = f"NATS/1.0\r\nNats-Last-Consumer: {cseq}\r\nNats-Last-Stream: {sseq}\r\n\r\n".encode()
    subject = request.reply.decode()
    head = f"HPUB {subject} {len(block)} {len(block)}\r\n".encode()
    bench.wire.send(head + block + b"\r\n")


def test_answers_acknowledge_and_let_more_out(bench: Bench) -> None:
    bench.consumer(ack_policy="flow_control", deliver_subject="d.p", max_ack_pending=3)
    bench.wire.send(b"SUB d.p 7\r\n")
    payloads, request = _until_request(bench)
    assert payloads == [b"m0", b"m1", b"m2"]
    _answer(bench, request, 2, 2)
    payloads, request = _until_request(bench)
    assert payloads == [b"m3", b"m4"]
    assert bench.state()["floor"] == (2, 2)
    bench.wire.publish(request.reply.decode(), b"")
    # Nothing was acknowledged by that, so the next heartbeat asks again.
    payloads, request = _until_request(bench)
    assert payloads == []
    _answer(bench, request, 5, 5)
    assert bench.reaches(ack_pending=0)["floor"] == (5, 5)


def test_an_answer_from_further_on_acknowledges_what_was_delivered(bench: Bench) -> None:
    bench.consumer(ack_policy="flow_control", deliver_subject="d.p", max_ack_pending=3)
    bench.wire.send(b"SUB d.p 7\r\n")
    payloads, request = _until_request(bench)
    assert payloads == [b"m0", b"m1", b"m2"]
    _answer(bench, request, 3, 100)
    payloads, request = _until_request(bench)
    assert payloads == [b"m3", b"m4"]
    assert bench.state()["ack_pending"] == 2
