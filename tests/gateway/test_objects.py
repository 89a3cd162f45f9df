"""Objects over HTTP: up and down as a stream, ranges, digests, information, links."""

# Subject: object store, HTTP

import hashlib
import json
import random
import socket
from base64 import b64encode, urlsafe_b64encode
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gateway.http.problems import Problem
from gateway.objects.download import Span, span_of
from tests.gateway.conftest import Store
from tests.gateway.feeds import FeedReader
from tests.gateway.web import Answer
from tests.support.eventually import eventually
from tests.support.wire import Wire

BODY = random.Random(7).randbytes(1_000_003)


def _digest(body: bytes) -> str:
    return f"sha-256=:{b64encode(hashlib.sha256(body).digest()).decode()}:"


def _stored(objects: Store) -> int:
    """How many messages the store has."""
    return int(objects.web.get(objects.info).json()["state"]["messages"])


def _info(objects: Store, name: str) -> dict[str, Any]:
    answer = objects.web.get(objects.at(name, ":info"))
    assert answer.status == 200, answer
    shown: dict[str, Any] = answer.json()
    return shown


def test_an_object_comes_back_as_it_was_sent(objects: Store) -> None:
    put = objects.put(
        "a dir/ä.png",
        BODY,
        Content_Type="image/png",
        Nats_H_Owner="me",
        Js_Description="a picture",
        Repr_Digest=_digest(BODY),
    )
    get = objects.get("a dir/ä.png")

    info = put.json()
    assert (put.status, put.headers["location"]) == (201, objects.at("a dir/ä.png"))
    assert (info["size"], info["chunks"], info["max_chunk_size"]) == (len(BODY), 8, 131072)
    assert info["headers"] == {"Content-Type": ["image/png"], "Owner": ["me"]}
    assert info["description"] == "a picture"
    assert (get.status, get.body) == (200, BODY)
    assert get.headers["content-type"] == "image/png"
    assert get.headers["nats-h-owner"] == "me"
    assert get.headers["repr-digest"] == put.headers["repr-digest"] == _digest(BODY)
    assert get.headers["etag"] == put.headers["etag"] == f'"{info["revision"]}"'
    assert get.headers["accept-ranges"] == "bytes"
    assert info == _info(objects, "a dir/ä.png")


@pytest.mark.parametrize("size", [0, 1, 131072, 131073, 262144])
def test_every_size_is_cut_into_chunks(objects: Store, size: int) -> None:
    body = BODY[:size]
    info = objects.put("o", body).json()
    assert (info["size"], info["chunks"]) == (size, -(-size // 131072))
    assert objects.get("o").body == body
    assert objects.web.send("HEAD", objects.at("o")).headers["content-length"] == str(size)


def test_a_body_of_unknown_length_is_taken(objects: Store) -> None:
    head = (
        f"PUT {objects.at('o')} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    pieces = [BODY[start : start + 70_000] for start in range(0, len(BODY), 70_000)]
    sent = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    answer = objects.web.raw(head.encode() + sent + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 201")
    assert objects.get("o").body == BODY


RANGES = [
    ("bytes=0-0", 0, 1),
    ("bytes=131071-131072", 131071, 131073),
    ("bytes=500000-", 500000, len(BODY)),
    ("bytes=-5", len(BODY) - 5, len(BODY)),
    ("bytes=-9999999", 0, len(BODY)),
    ("bytes=999999-9999999", 999999, len(BODY)),
    ("bytes=262144-393215", 262144, 393216),
]


@pytest.mark.parametrize(("header", "start", "stop"), RANGES)
def test_a_range_is_those_bytes(objects: Store, header: str, start: int, stop: int) -> None:
    objects.put("o", BODY)
    answer = objects.get("o", Range=header)
    assert (answer.status, answer.body) == (206, BODY[start:stop])
    assert answer.headers["content-range"] == f"bytes {start}-{stop - 1}/{len(BODY)}"


def test_impossible_ranges_are_refused_or_ignored(objects: Store) -> None:
    objects.put("o", BODY)
    refused = objects.get("o", Range=f"bytes={len(BODY)}-")
    assert (refused.status, refused.kind) == (416, "range-not-satisfiable")
    assert refused.headers["content-range"] == f"bytes */{len(BODY)}"
    for header in ("bytes=0-1,4-5", "lines=0-1", "bytes=5-1", "bytes=-", "x"):
        answer = objects.get("o", Range=header)
        assert (answer.status, answer.body) == (200, BODY), header
    head = objects.web.send("HEAD", objects.at("o"), None, {"Range": "bytes=0-1"})
    assert (head.status, head.headers["content-length"]) == (200, str(len(BODY)))
    etag = objects.get("o").headers["etag"]
    assert objects.get("o", Range="bytes=0-1", If_Range=etag).status == 206
    assert objects.get("o", Range="bytes=0-1", If_Range='"1"').status == 200


def test_spans_of_ranges() -> None:
    assert span_of("bytes=2-4", 10) == Span(2, 5)
    assert span_of(None, 10) is None
    for header in ("bytes=0-", "bytes=0-5", "bytes=-1"):
        with pytest.raises(Problem):
            span_of(header, 0)


@pytest.mark.parametrize("header", ["Repr-Digest", "Content-Digest"])
def test_a_body_that_is_not_its_digest_leaves_nothing(objects: Store, header: str) -> None:
    answer = objects.web.send("PUT", objects.at("o"), BODY, {header: _digest(b"other")})
    assert (answer.status, answer.kind) == (400, "digest-mismatch")
    assert _stored(objects) == 0
    assert objects.get("o").status == 404
    sha512 = b64encode(hashlib.sha512(BODY).digest()).decode()
    fine = {header: f"md5=:AA==:, sha-512=:{sha512}:, {_digest(BODY)}"}
    assert objects.web.send("PUT", objects.at("o"), BODY, fine).status == 201
    for wrong in ("sha-256=x", "md5=:AA==:", "md5=:AA==:, crc32c=:AA==:", "sha-256=:A:"):
        answer = objects.web.send("PUT", objects.at("o"), BODY, {header: wrong})
        assert (answer.status, answer.kind) == (400, "bad-header"), wrong


def test_two_digests_are_both_checked(objects: Store) -> None:
    head = f"PUT {objects.at('o')} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
    lines = [f"Repr-Digest: {_digest(body)}\r\n" for body in (b"x", b"other")]

    answer = objects.web.raw(f"{head}{''.join(lines)}\r\nx".encode())

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"digest-mismatch" in answer


def test_an_object_of_any_name_that_is_listed_can_be_read_changed_and_deleted(
    objects: Store,
) -> None:
    names = ["n" * 900, ".", "a\nb", " ", "\u200d", "a:info", "%2F", "?#"]
    with Wire(objects.nats) as wire:
        wire.hello()
        for number, name in enumerate(names):
            known = {"name": name, "bucket": objects.name, "nuid": f"n{number}", "size": 1}
            info = json.dumps(known | {"chunks": 1}).encode()
            wire.publish(f"$O.{objects.name}.C.n{number}", b"%d" % number)
            subject = urlsafe_b64encode(name.encode()).decode()
            wire.publish(f"$O.{objects.name}.M.{subject}", info)
        wire.flush()

    def listed() -> list[str]:
        answer = objects.web.get(objects.path + ":list")
        return sorted(each["name"] for each in answer.json()["objects"])

    eventually(lambda: len(listed()) == len(names))
    for number, name in enumerate(names):
        assert objects.get(name).body == b"%d" % number
        assert _info(objects, name)["name"] == name
        changed = objects.web.json("PATCH", objects.at(name), {"description": "new"})
        assert changed.json()["description"] == "new"
    assert objects.web.json("PATCH", objects.at(names[0]), {"name": "short"}).status == 200
    for name in ("short", *names[1:]):
        assert objects.web.delete(objects.at(name)).status == 204, name
    assert listed() == []


def test_stored_objects_have_names_of_bounded_length(objects: Store) -> None:
    assert objects.put("n" * 600, b"1").status == 201
    assert objects.put("n" * 601, b"1").kind == "bad-name"
    link = {"bucket": objects.name, "name": "n" * 600}
    assert objects.web.json("POST", objects.at("n" * 601, ":link"), link).kind == "bad-name"


def test_a_body_that_breaks_off_leaves_nothing(objects: Store) -> None:
    objects.put("o", b"before")
    before = _stored(objects)
    head = (
        f"PUT {objects.at('o')} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(BODY)}\r\n\r\n"
    )
    with socket.create_connection(objects.web.address, timeout=30) as caller:
        caller.sendall(head.encode() + BODY[:700_000])
        assert eventually(lambda: _stored(objects) > before)

    assert eventually(lambda: _stored(objects) == before)
    assert objects.get("o").body == b"before"


def test_a_store_that_is_full_keeps_nothing_of_a_body(objects: Store) -> None:
    objects.web.json("PATCH", objects.path, {"max_bytes": 500_000})
    answer = objects.put("o", BODY)
    assert answer.status == 503
    assert answer.json()["err_code"] == 10077
    assert _stored(objects) == 0


def test_another_body_takes_the_place_of_the_first(objects: Store) -> None:
    first = objects.put("o", BODY)
    second = objects.put("o", b"new", If_Match=first.headers["etag"])
    assert (second.status, objects.get("o").body) == (200, b"new")
    assert _stored(objects) == 2
    for headers in ({"If_Match": first.headers["etag"]}, {"If_None_Match": "*"}):
        late = objects.put("o", b"late", **headers)
        assert (late.status, late.kind) == (412, "precondition-failed")
        assert late.json()["current_sequence"] == second.json()["revision"]
    known = objects.get("o", If_None_Match=second.headers["etag"])
    names = {name.lower() for name in known.headers} - {"date"}
    assert (known.status, names) == (304, {"etag", "cache-control", "vary"})
    assert objects.put("none", b"x", If_Match="*").status == 412


def test_concurrent_puts_leave_no_orphaned_chunks(objects: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: objects.put("o", BODY[number:]), range(16)))

    info = _info(objects, "o")
    assert all(answer.status in (200, 201) for answer in answers), answers
    assert _stored(objects) == info["chunks"] + 1
    body = objects.get("o").body
    assert body in [BODY[number:] for number in range(16)]


def test_a_deleted_object_keeps_its_name_only(objects: Store) -> None:
    objects.put("o", BODY)
    assert objects.web.send("DELETE", objects.at("o"), None, {"If-Match": '"1"'}).status == 412
    assert objects.web.delete(objects.at("o")).status == 204

    assert _stored(objects) == 1
    for answer in (
        objects.get("o"),
        objects.web.get(objects.at("o", ":info")),
        objects.web.delete(objects.at("o")),
        objects.get("never"),
    ):
        assert (answer.status, answer.kind) == (404, "object-not-found")
    assert objects.web.get(objects.path + ":list").json() == {"objects": []}
    (gone,) = objects.web.get(objects.path + ":list?deleted=true").json()["objects"]
    assert (gone["name"], gone["deleted"], gone["size"]) == ("o", True, 0)
    assert objects.put("o", b"again", If_None_Match="*").status == 201


def _patch(objects: Store, name: str, patch: dict[str, Any], **headers: str) -> Answer:
    return objects.web.json("PATCH", objects.at(name), patch, **headers)


def test_information_is_changed_and_objects_are_renamed(objects: Store) -> None:
    objects.put("o", BODY, Js_Description="old")
    objects.put("other", b"x")
    info = _patch(objects, "o", {"metadata": {"a": "b"}, "description": None}).json()
    assert info["metadata"] == {"a": "b"}
    assert "description" not in info
    assert info == _info(objects, "o")
    assert _patch(objects, "o", {"name": "other"}).kind == "object-exists"
    assert _patch(objects, "o", {"size": 1}).kind == "bad-json"
    assert _patch(objects, "o", {"headers": {"a b": ["x"]}}).kind == "bad-header"
    assert _patch(objects, "o", {"headers": {"A": ["x"] * 100}}).kind == "headers-too-large"
    assert _patch(objects, "o", {}, If_Match='"1"').status == 412
    assert _patch(objects, "none", {}).status == 404

    renamed = _patch(objects, "o", {"name": "new/name"})

    assert (renamed.status, renamed.json()["metadata"]) == (200, {"a": "b"})
    assert renamed.json() == _info(objects, "new/name")
    assert objects.get("o").status == 404
    assert objects.get("new/name").body == BODY


def test_links_lead_to_objects(objects: Store) -> None:
    objects.put("o", BODY)

    def link(name: str, /, **target: str) -> Answer:
        return objects.web.json("POST", objects.at(name, ":link"), target)

    assert link("ln", bucket=objects.name, name="o").status == 201
    again = link("ln", bucket=objects.name, name="o")
    assert (again.status, again.json()) == (200, _info(objects, "ln"))
    assert objects.get("ln", Range="bytes=5-9").body == BODY[5:10]
    assert _info(objects, "ln")["link"] == {"bucket": objects.name, "name": "o"}
    renamed = _patch(objects, "ln", {"description": "x"})
    assert (renamed.status, renamed.headers["repr-digest"]) == (200, None)
    assert link("twice", bucket=objects.name, name="ln").kind == "object-is-link"
    assert link("o", bucket=objects.name, name="o").kind == "object-exists"
    assert link("nowhere", bucket=objects.name, name="none").kind == "object-not-found"
    assert link("nowhere", bucket="none").kind == "bucket-not-found"
    assert link("store", bucket=objects.name).status == 201
    assert (objects.get("store").status, objects.get("store").kind) == (409, "object-is-link")
    objects.web.delete(objects.at("ln"))
    assert objects.get("o").body == BODY


def test_chunks_that_are_gone_are_never_an_object(objects: Store) -> None:
    info = objects.put("o", BODY).json()
    objects.web.delete(f"{objects.info}/messages/3")
    answer = objects.get("o")
    assert (answer.status, answer.kind) == (503, "object-changed")
    subject = f"$O.{objects.name}.C.{info['nuid']}"
    objects.web.publish(subject, b"x" * 131072)
    with pytest.raises(Exception, match="IncompleteRead"):
        objects.get("o")


def test_chunks_among_others_are_found(objects: Store) -> None:
    """A range of an object whose chunks do not follow each other."""
    one = objects.put("one", BODY, Js_Chunk_Size="100000").json()
    objects.put("two", BODY[::-1])
    subject = f"$O.{objects.name}.C.{one['nuid']}"
    # The last chunk is moved behind the others.
    objects.web.delete(f"{objects.info}/messages/11")
    objects.web.publish(subject, BODY[1_000_000:])
    answer = objects.get("one", Range="bytes=150000-")
    assert (answer.status, answer.body) == (206, BODY[150000:])


def test_a_sealed_store_changes_no_more(objects: Store) -> None:
    objects.put("o", BODY)
    assert objects.web.send("POST", objects.path + ":seal").json()["sealed"] is True
    for answer in (objects.put("o", b"x"), objects.web.delete(objects.at("o"))):
        assert (answer.status, answer.json()["err_code"]) == (409, 10109)
    assert objects.get("o").body == BODY


def test_changes_are_followed(objects: Store) -> None:
    objects.put("a", b"1")
    with FeedReader(objects.web, objects.path + ":watch") as feed:
        assert feed.line()["event"] == "open"
        assert [line["name"] for line in feed.until("ready")] == ["a"]
        objects.put("b", b"22")
        objects.web.delete(objects.at("a"))
        put, deleted = feed.line(), feed.line()
    assert (put["event"], put["name"], put["size"]) == ("put", "b", 2)
    assert (deleted["event"], deleted["name"]) == ("delete", "a")
    path = f"{objects.path}:watch?last_event_id={put['position']}"
    with FeedReader(objects.web, path, Accept="text/event-stream") as feed:
        assert feed.event()[2]["recovered"] is True
        assert feed.event()[0] == "delete"


def test_without_a_store_there_are_no_objects(objects: Store) -> None:
    web = objects.web
    for answer in (
        web.get("/v1/objects/none/o"),
        web.get("/v1/objects/none/o:info"),
        web.get("/v1/objects/none:list"),
        web.get("/v1/objects/none:watch"),
        web.send("PUT", "/v1/objects/none/o", b"x"),
        web.send("DELETE", "/v1/objects/none/o"),
        web.send("POST", "/v1/objects/none:seal"),
    ):
        assert (answer.status, answer.kind) == (404, "bucket-not-found")
    for headers in ({"Js-Chunk-Size": "5"}, {"Nats-TTL": "1s"}, {"If-None-Match": '"1"'}):
        assert web.send("PUT", objects.at("o"), b"x", headers).status == 400
    assert objects.put("x" * 700).kind == "bad-name"
