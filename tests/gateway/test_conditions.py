"""Entity tags of streams and consumers: what is changed only as it was seen."""

# Subject: HTTP

import json
import threading
from typing import Any

import pytest

from tests.gateway.conftest import Stream
from tests.gateway.web import Answer, Web, names


def change(web: Web, method: str, path: str, body: object = None, **headers: str) -> Answer:
    named = names(headers)
    if body is None:
        return web.send(method, path, None, named)
    named["Content-Type"] = "application/json"
    return web.send(method, path, json.dumps(body).encode(), named)


def place(stream: Stream, kind: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The path of a stream or of its consumer C, a configuration of it, and another."""
    if kind == "stream":
        config = {"subjects": [f"{stream.prefix}.>"], "allow_direct": True}
        return stream.path, config, config | {"max_msgs": 9}
    config = {"ack_policy": "explicit"}
    return f"{stream.path}/consumers/C", config, config | {"description": "another"}


@pytest.fixture(params=["stream", "consumer"])
def thing(stream: Stream, request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """A stream or a consumer that is there; a changed configuration for it."""
    path, config, other = place(stream, request.param)
    if request.param == "consumer":
        assert change(stream.web, "PUT", path, config).status == 201
    return path, other


Thing = tuple[str, dict[str, Any]]


def test_the_tag_stands_for_the_configuration(stream: Stream, thing: Thing) -> None:
    path, other = thing
    first = stream.web.get(path).headers["etag"]
    stream.publish("a")
    same = stream.web.get(path)
    changed = change(stream.web, "PUT", path, other)

    assert same.headers["etag"] == first
    assert same.headers["cache-control"] == "no-store"
    assert changed.headers["etag"] != first
    assert stream.web.get(path).headers["etag"] == changed.headers["etag"]
    assert stream.web.send("HEAD", path).headers["etag"] == changed.headers["etag"]


def test_a_recreated_resource_has_another_etag(stream: Stream) -> None:
    path, config, _ = place(stream, "stream")
    first = stream.web.get(path).headers["etag"]
    stream.web.delete(path)
    again = change(stream.web, "PUT", path, config)

    assert again.status == 201
    assert again.headers["etag"] != first
    assert stream.web.get(path).headers["etag"] == again.headers["etag"]


def test_a_known_tag_saves_the_body(stream: Stream, thing: Thing) -> None:
    path, _ = thing
    tag = stream.web.get(path).headers["etag"] or ""

    for known in (tag, f'"x", {tag}', f"W/{tag}", "*"):
        answer = stream.web.get(path, If_None_Match=known)
        assert (answer.status, answer.body, answer.headers["etag"]) == (304, b"", tag)
    assert stream.web.get(path, If_None_Match='"x"').status == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_a_change_is_made_only_as_it_was_seen(stream: Stream, thing: Thing, method: str) -> None:
    path, other = thing
    seen = stream.web.get(path).headers["etag"] or ""
    body = None if method == "DELETE" else other
    change(stream.web, "PATCH", path, {"description": "changed meanwhile"})

    for stale in (seen, f'"x", {seen}', '"x"', f"W/{seen}"):
        refused = change(stream.web, method, path, body, If_Match=stale)
        assert (refused.status, refused.kind) == (412, "precondition-failed")
        assert "err_code" not in refused.json()
    current = stream.web.get(path)
    weak = change(stream.web, method, path, body, If_Match=f"W/{current.headers['etag']}")
    done = change(stream.web, method, path, body, If_Match=f'"x",{current.headers["etag"]}')

    assert refused.headers["etag"] == current.headers["etag"]
    assert current.json()["config"]["description"] == "changed meanwhile"
    assert weak.status == 412
    assert done.status == (204 if method == "DELETE" else 200)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_a_star_stands_for_anything_that_is_there(
    stream: Stream, thing: Thing, method: str
) -> None:
    path, other = thing
    body = None if method == "DELETE" else other

    assert change(stream.web, method, path, body, If_None_Match="*").status == 412
    assert change(stream.web, method, path, body, If_Match="*").status in (200, 204)


@pytest.mark.parametrize("kind", ["stream", "consumer"])
def test_only_what_is_not_there_is_created(stream: Stream, kind: str) -> None:
    path, config, _ = place(stream, kind)
    if kind == "stream":
        stream.web.delete(path)

    assert change(stream.web, "PUT", path, config, If_Match="*").status == 412
    assert change(stream.web, "PUT", path, config, If_Match='"x"').status == 412
    assert change(stream.web, "PUT", path, config, If_None_Match="*").status == 201
    assert change(stream.web, "PUT", path, config, If_None_Match="*").status == 412


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_a_missing_resource_is_not_found_under_any_condition(stream: Stream, method: str) -> None:
    body: object = None if method == "DELETE" else {}
    for path in ("/v1/streams/MISSING", f"{stream.path}/consumers/MISSING"):
        assert change(stream.web, method, path, body, If_Match='"x"').status == 404


@pytest.mark.parametrize("header", ["If-Match", "If-None-Match"])
@pytest.mark.parametrize("value", ["x", '"x', "", ",", '"a" "b"', '*, "a"', "W/", '"a";', '"a\tb"'])
def test_tags_that_are_none(stream: Stream, header: str, value: str) -> None:
    answer = change(stream.web, "PATCH", stream.path, {}, **{header: value})

    assert (answer.status, answer.kind) == (400, "bad-header")


def test_of_many_writers_with_the_same_revision_one_wins(stream: Stream) -> None:
    seen = stream.web.get(stream.path).headers["etag"] or ""
    answers: list[int] = []

    def write(number: int) -> None:
        body = {"description": str(number)}
        answers.append(change(stream.web, "PATCH", stream.path, body, If_Match=seen).status)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(12)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()

    assert sorted(answers) == [200] + [412] * 11
