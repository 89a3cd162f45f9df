"""Any sequence of requests to a bucket comes out as in a model of a few lines."""

# Subject: key-value, HTTP

from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.gateway.conftest import Store
from tests.gateway.web import Answer, Web

_numbers = count(1)
_HISTORY = 3
_KEYS = st.sampled_from(["a", "a.b", "b/c"])
_VALUES = st.binary(max_size=20)
# How far behind the last revision the one is that a caller believes in; None: he has no belief.
_BELIEFS = st.sampled_from([None, 0, 0, 1, 2])
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), _KEYS, _VALUES, _BELIEFS),
        st.tuples(st.just("create"), _KEYS, _VALUES, st.none()),
        st.tuples(st.just("delete"), _KEYS, st.just(b""), _BELIEFS),
        st.tuples(st.just("purge"), _KEYS, st.just(b""), _BELIEFS),
    ),
    min_size=5,
    max_size=25,
)
Step = tuple[str, str, bytes, int | None]


@dataclass
class Model:
    """What a bucket holds: the kept (revision, operation, value) of each key."""

    last: int = 0
    stored: dict[str, list[tuple[int, str, bytes]]] = field(default_factory=dict)

    def revision(self, key: str) -> int:
        return self.stored[key][-1][0] if self.stored.get(key) else 0

    def live(self, key: str) -> bool:
        return bool(self.stored.get(key)) and self.stored[key][-1][1] == "PUT"

    def play(self, step: Step, expected: int | None) -> bool:
        """Whether it is taken."""
        verb, key, value, _ = step
        if verb == "create" and self.live(key):
            return False
        if expected is not None and expected != self.revision(key):
            return False
        self.last += 1
        operation = {"delete": "DEL", "purge": "PURGE"}.get(verb, "PUT")
        before = [] if verb == "purge" else self.stored.get(key, [])
        self.stored[key] = [*before, (self.last, operation, value)][-_HISTORY:]
        return True


def _send(bucket: Store, step: Step, expected: int | None) -> Answer:
    verb, key, value, _ = step
    headers = {} if expected is None else {"If-Match": f'"{expected}"'}
    if verb == "create":
        headers = {"If-None-Match": "*"}
    if verb in ("put", "create"):
        return bucket.web.send("PUT", bucket.at(key), value, headers)
    if verb == "delete":
        return bucket.web.send("DELETE", bucket.at(key), None, headers)
    return bucket.web.send("POST", bucket.at(key, ":purge"), None, headers)


def _check_key(bucket: Store, model: Model, key: str) -> None:
    read = bucket.get(key)
    stored = model.stored.get(key, [])
    if model.live(key):
        revision, _, value = stored[-1]
        assert (read.status, read.body, read.headers["etag"]) == (200, value, f'"{revision}"')
    else:
        assert (read.status, read.kind) == (404, "key-not-found")
        assert read.json().get("current_sequence", 0) == model.revision(key)
    history = bucket.web.get(bucket.at(key, ":history"))
    entries: list[dict[str, Any]] = history.json()["entries"] if stored else []
    assert history.status == (200 if stored else 404)
    assert [(entry["revision"], entry["operation"]) for entry in entries] == [
        (revision, operation) for revision, operation, _ in stored
    ]
    for revision, operation, value in stored:
        old = bucket.get(key, f"?revision={revision}")
        assert (old.status, old.body) == (200, value) if operation == "PUT" else old.status == 404


def test_a_bucket_is_its_model(served: tuple[Web, tuple[str, int]]) -> None:
    web, nats = served

    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(_STEPS)
    def run(steps: list[Step]) -> None:
        name = f"m{next(_numbers)}"
        bucket = Store(web, nats, name, f"/v1/kv/{name}")
        assert (
            web.json("PUT", bucket.path, {"history": _HISTORY, "storage": "memory"}).status == 201
        )
        try:
            model = Model()
            for step in steps:
                _play(bucket, model, step)
            for key in ("a", "a.b", "b/c", "never"):
                _check_key(bucket, model, key)
            keys = web.get(bucket.path + ":keys").json()["keys"]
            shown = {key["key"]: key["revision"] for key in keys}
            assert shown == {key: model.revision(key) for key in model.stored if model.live(key)}
        finally:
            web.delete(bucket.path)

    run()


def _play(bucket: Store, model: Model, step: Step) -> None:
    behind = step[3]
    expected = None if behind is None else max(0, model.revision(step[1]) - behind)
    before = model.revision(step[1])
    taken = model.play(step, expected)
    answer = _send(bucket, step, expected)
    if not taken:
        assert (answer.status, answer.json()["current_sequence"]) == (412, before), step
    elif step[0] in ("put", "create"):
        assert answer.status == (201 if step[0] == "create" else 200)
        assert answer.json()["revision"] == model.last
    else:
        assert (answer.status, answer.headers["js-revision"]) == (204, str(model.last))
