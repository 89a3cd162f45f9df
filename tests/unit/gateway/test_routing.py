"""The route table and finding a row in it."""

# Subject: HTTP

import pytest

from gateway.http.problems import Problem
from gateway.requests.route_table import Table
from gateway.routes import ROUTES

TABLE = Table(ROUTES)


def test_every_operation_has_one_name_and_a_description() -> None:
    assert len({operation.id for operation in ROUTES}) == len(ROUTES)
    assert all(operation.handler.__doc__ for operation in ROUTES)


def test_every_operation_is_found_at_its_place() -> None:
    for operation in ROUTES:
        path = operation.path.replace("{", "").replace("}", "")
        found, params, _ = TABLE.find(operation.method, path.encode())
        assert found is operation
        assert all(key == value for key, value in params.items())


@pytest.mark.parametrize(
    ("path", "params"),
    [
        (b"/v1/streams/a:b", {"stream": "a:b"}),
        (b"/v1/streams/a%3Apurge", {"stream": "a:purge"}),
        (b"/v1/streams/a%2Fb", {"stream": "a/b"}),
        (b"/v1/streams/%2561", {"stream": "%61"}),
    ],
)
def test_parameters_are_decoded_after_matching(path: bytes, params: dict[str, str]) -> None:
    assert TABLE.find("GET", path)[1] == params


@pytest.mark.parametrize("length", [10, 1000])
def test_a_path_means_the_same_however_often_it_is_asked_for(length: int) -> None:
    path = b"/v1/streams/" + b"s" * length
    first = TABLE.find("GET", path)
    with pytest.raises(TypeError):
        first[1]["stream"] = "another"  # type: ignore[index]

    assert TABLE.find("GET", path) == first
    assert TABLE.find("DELETE", path)[0] is not first[0]
    for _ in range(2):
        with pytest.raises(Problem) as refused:
            TABLE.find("PUT", path + b"%")
        assert refused.value.kind == "bad-encoding"


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        (b"/v1/kv/B/path/to/key", "a slash in a name is %2F, as in /v1/kv/B/path%2Fto%2Fkey"),
        (b"/v1/kv/B/path/key:history", "as in /v1/kv/B/path%2Fkey:history"),
        (b"/v1/objects/files/a/b.png", "as in /v1/objects/files/a%2Fb.png"),
        (b"/v1/subjects/a/b", "as in /v1/subjects/a%2Fb"),
        (b"/v1/subjects/a/b:request", "as in /v1/subjects/a%2Fb:request"),
        (b"/v1/tail/a/b", "as in /v1/tail/a%2Fb"),
        (b"/v1/streams/", "leave out the slash at its end"),
        (b"/v1/streams/S/", "leave out the slash at its end"),
        (b"/v1/kv/B/" + b"a/" * 4000 + b"b", "%2Fa%2Fa%2Fb"),
    ],
)
def test_a_path_with_an_extra_slash_gets_the_right_one(path: bytes, hint: str) -> None:
    with pytest.raises(Problem) as refused:
        TABLE.find("GET", path)

    assert (refused.value.status, refused.value.kind) == (404, "no-such-route")
    assert refused.value.detail.endswith(hint)
    assert len(refused.value.detail) < 400


@pytest.mark.parametrize(
    "path", [b"/v1/streams/OR/DERS/purge", b"/v1/nothing/at/all", b"/v1/kv//a"]
)
def test_nothing_is_guessed_of_other_paths(path: bytes) -> None:
    with pytest.raises(Problem, match="nothing is at this path'"):
        TABLE.find("GET", path)


def test_a_verb_is_taken_from_the_end_of_the_segment() -> None:
    operation, params, _ = TABLE.find("POST", b"/v1/streams/a:b:purge")

    assert operation is not None
    assert (operation.id, params) == ("purgeStream", {"stream": "a:b"})


@pytest.mark.parametrize("path", [b"", b"*", b"/v1", b"/v1/streams/", b"//healthz", b"/v1/x"])
def test_other_paths_are_not_found(path: bytes) -> None:
    with pytest.raises(Problem) as caught:
        TABLE.find("GET", path)
    assert caught.value.status == 404


def test_other_methods_get_the_allowed_ones() -> None:
    with pytest.raises(Problem) as caught:
        TABLE.find("PUT", b"/v1/streams")
    assert caught.value.status == 405
    assert caught.value.headers == {"Allow": "GET, HEAD, OPTIONS, POST"}
