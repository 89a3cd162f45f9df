"""The route table and finding a row in it."""

import pytest

from gateway.problems import Problem
from gateway.routes import ROUTES
from gateway.routing import Table

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


def test_a_verb_is_taken_from_the_end_of_the_segment() -> None:
    operation, params, _ = TABLE.find("POST", b"/v1/streams/a:b:purge")

    assert operation is not None
    assert (operation.id, params) == ("purgeStream", {"stream": "a:b"})


@pytest.mark.parametrize("path", [b"", b"*", b"/v1", b"/v1/streams/", b"//healthz", b"/v1/x"])
def test_other_paths_are_not_found(path: bytes) -> None:
    with pytest.raises(Problem) as caught:
        TABLE.find("GET", path)
    assert caught.value.status == 404


def test_other_methods_are_told_which_there_are() -> None:
    with pytest.raises(Problem) as caught:
        TABLE.find("PUT", b"/v1/streams")
    assert caught.value.status == 405
    assert caught.value.headers == {"Allow": "GET, HEAD, OPTIONS, POST"}
