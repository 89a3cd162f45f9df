"""Publishing one message."""

# Subject: HTTP

from tests.gateway.conftest import Stream
from tests.gateway.web import Web


def test_a_publish_is_created_at_the_place_it_names(stream: Stream) -> None:
    answer = stream.web.publish(stream.subject("a"), b"\x00\xffbytes")

    assert answer.status == 201
    assert answer.json() == {"stream": stream.name, "seq": 1}
    assert answer.headers["etag"] == '"1"'
    assert stream.web.get(answer.headers["location"]).body == b"\x00\xffbytes"


def test_a_repeated_idempotency_key_is_answered_with_the_first_receipt(stream: Stream) -> None:
    stream.web.publish(stream.subject("a"), b"1", Idempotency_Key='"key 1"')

    again = stream.web.publish(stream.subject("a"), b"1", Idempotency_Key="key 1")

    assert again.status == 200
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == {"stream": stream.name, "seq": 1, "duplicate": True}


def test_a_repeated_key_is_answered_with_the_first_receipt_whatever_its_condition(
    stream: Stream,
) -> None:
    subject = stream.subject("a")
    created = {"If-None-Match": "*", "Idempotency-Key": "create-1"}
    updated = {"If-Match": '"1"', "Idempotency-Key": "update-1"}
    answers = [stream.web.publish(subject, b"x", **said) for said in (created, updated) * 2]

    assert [(each.status, each.json()["seq"]) for each in answers] == [
        (201, 1),
        (201, 2),
        (200, 1),
        (200, 2),
    ]
    other = stream.web.publish(subject, b"x", **(updated | {"Idempotency-Key": "update-2"}))
    assert (other.status, other.kind) == (412, "stream-wrong-last-sequence")
    assert stream.web.get(stream.path).json()["state"]["messages"] == 2


def test_headers_come_back_as_they_were_sent(stream: Stream) -> None:
    stream.publish("a", b"{}", Nats_H_X_Order="7", Content_Type="application/json", Nats_Msg_Id="m")

    answer = stream.web.get(f"{stream.path}/messages/1")

    assert answer.headers["nats-h-x-order"] == "7"
    assert answer.headers["nats-msg-id"] == "m"
    assert answer.headers["content-type"] == "application/json"


def test_a_message_cannot_set_a_response_header(stream: Stream) -> None:
    stream.publish("a", b"<p>", Nats_H_Set_Cookie="a=b", Content_Type="text/html")

    answer = stream.web.get(f"{stream.path}/messages/1")

    assert "set-cookie" not in answer.headers
    assert answer.headers["nats-h-set-cookie"] == "a=b"
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_if_match_stores_only_after_the_sequence_it_names(stream: Stream) -> None:
    seq = stream.publish("a")

    refused = stream.web.publish(stream.subject("a"), b"2", If_Match=f'"{seq + 5}"')
    stored = stream.web.publish(stream.subject("a"), b"2", If_Match=f'"{seq}"')

    assert (refused.status, refused.json()["err_code"]) == (412, 10071)
    assert refused.json()["current_sequence"] == seq
    assert stored.status == 201


def test_if_none_match_stores_only_the_first_of_a_subject(stream: Stream) -> None:
    first = stream.web.publish(stream.subject("a"), b"1", If_None_Match="*")
    second = stream.web.publish(stream.subject("a"), b"2", If_None_Match="*")

    assert (first.status, second.status) == (201, 412)


def test_js_expect_stream_compares_with_the_whole_stream(stream: Stream) -> None:
    stream.publish("a")
    stream.publish("b")

    refused = stream.web.publish(stream.subject("a"), b"", If_Match='"1"', Js_Expect="stream")
    stored = stream.web.publish(stream.subject("a"), b"", If_Match='"2"', Js_Expect="stream")

    assert (refused.status, stored.status) == (412, 201)


def test_a_subject_without_a_stream_is_not_found(web: Web) -> None:
    answer = web.publish("nobody.has.this", b"")

    assert (answer.status, answer.kind) == (404, "no-stream")


def test_a_subject_may_hold_what_a_url_may_not(stream: Stream) -> None:
    subject = stream.subject("a/b:c%41é?#[]")

    answer = stream.web.publish(subject, b"")

    assert answer.status == 201
    found = stream.web.get(answer.headers["location"], Accept="application/json")
    assert found.json()["subject"] == subject


def test_a_line_break_never_reaches_the_protocol(stream: Stream) -> None:
    path = f"/v1/subjects/{stream.prefix}.a%0d%0aPUB%20{stream.prefix}.b%200%0d%0a"

    answer = stream.web.send("POST", path, b"x")

    assert (answer.status, answer.kind) == (400, "bad-subject")
    state = stream.web.get(stream.path).json()["state"]
    assert state["messages"] == 0


def test_a_body_over_the_limit_of_the_server_is_refused(stream: Stream) -> None:
    answer = stream.web.publish(stream.subject("a"), b"x" * (1024 * 1024 + 1))

    assert (answer.status, answer.kind) == (413, "body-too-large")


def test_a_body_of_the_largest_size_is_stored(stream: Stream) -> None:
    body = bytes(range(256)) * 4096

    assert stream.web.publish(stream.subject("a"), body).status == 201
    assert stream.web.get(f"{stream.path}/messages/1").body == body


def test_a_chunked_body_is_one_message(stream: Stream) -> None:
    head = f"POST /v1/subjects/{stream.prefix}.a HTTP/1.1\r\nHost: localhost\r\n"
    chunks = "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"

    assert stream.web.raw((head + chunks).encode()).startswith(b"HTTP/1.1 201 ")
    assert stream.web.get(f"{stream.path}/messages/1").body == b"abcde"


def test_a_counter_returns_its_total(web: Web) -> None:
    made = web.json(
        "PUT", "/v1/streams/HTTPC", {"subjects": ["httpc.*"], "allow_msg_counter": True}
    )
    try:
        answers = [web.publish("httpc.a", b"", Nats_Incr=value) for value in ("5", "-7")]
        refused = web.publish("httpc.a", b"x", Nats_Incr="1")
    finally:
        web.delete("/v1/streams/HTTPC")

    assert made.status == 201
    assert [answer.json()["val"] for answer in answers] == ["5", "-2"]
    assert (refused.status, refused.json()["err_code"]) == (400, 10170)


def test_a_schedule_is_published_and_cancelled(web: Web) -> None:
    web.json("PUT", "/v1/streams/HTTPS", {"subjects": ["https.*"], "allow_msg_schedules": True})
    ends = {"Nats_Scheduler": "https.a", "Nats_Schedule_Next": "purge"}
    try:
        bad = web.publish("https.a", b"x", Nats_Schedule="often", Nats_Schedule_Target="https.b")
        later = {"Nats_Schedule": "@every 1h", "Nats_Schedule_Target": "https.b"}
        made = web.publish("https.a", b"x", **later)
        told = web.publish("https.c", b"no more", **ends)
        left = web.get("/v1/streams/HTTPS/messages/1")
    finally:
        web.delete("/v1/streams/HTTPS")

    assert (bad.status, bad.json()["err_code"]) == (400, 10189)
    assert (made.json()["seq"], told.json()["seq"], left.status) == (1, 2, 404)


def test_a_subject_as_long_as_they_may_be_is_published_read_and_purged(stream: Stream) -> None:
    subject = stream.subject("x" * (3900 - len(stream.subject(""))))
    assert len(subject) == 3900

    assert stream.web.publish(subject, b"long").json()["seq"] == 1

    last = stream.web.get(f"{stream.path}/messages?last_by={subject}")
    assert (last.status, last.body) == (200, b"long")
    assert subject.encode() in stream.web.get(f"{stream.path}/subjects").body
    purged = stream.web.json("POST", f"{stream.path}:purge", {"filter": subject})
    assert purged.json()["purged"] == 1
