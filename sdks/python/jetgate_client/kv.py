"""Key-value buckets, compatible with those of official NATS clients (ADR-8)."""

import json
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from jetgate_client.errors import NotFound
from jetgate_client.events import follow
from jetgate_client.payloads import Payload, encoded, members
from jetgate_client.transport import NDJSON, Transport, path_of, revision_of


@dataclass(frozen=True, slots=True)
class Entry:
    """A value of a key, or its deletion marker.

    `operation` is PUT (a value), DEL or PURGE (a marker); `created` is in RFC 3339; `revision` is
    the stream sequence.
    """

    bucket: str
    key: str
    revision: int
    created: str
    operation: str
    value: bytes

    def text(self) -> str:
        """Decode the value as UTF-8. Raises UnicodeDecodeError if it is not."""
        return self.value.decode()

    def json(self) -> Any:
        """Parse the value as JSON. Raises ValueError if it is not."""
        return json.loads(self.value)


@dataclass(frozen=True, slots=True)
class Change:
    """An item of a watch: a change of a key, or a report about the watch itself.

    `event` is one of:

    - `put`, `delete` or `purge`: the key of `entry` has changed.
    - `ready`: all current entries were yielded, and changes follow.
    - `reset`: changes may have been missed. The caller must discard its state; all current entries
      follow.
    """

    event: str
    position: str
    entry: Entry | None = None


class Bucket:
    """A key-value bucket.

    Writes have an id and are repeated until the server answers. They raise Problem if the server
    refuses, OutcomeUnknown without an answer within the limit of retries.
    """

    def __init__(self, transport: Transport, name: str) -> None:
        self.name = name
        self._transport = transport

    async def get(self, key: str, *, revision: int | None = None) -> Entry | None:
        """Return the value of a key, the last or that of a revision; None if it has none.

        Raises Problem if the server refuses, ConnectionLost if it does not answer.
        """
        query = {} if revision is None else {"revision": str(revision)}
        path = path_of("kv", self.name, key)
        try:
            answer = await self._transport.send(
                "GET", path, params=query, headers={"Accept": "*/*"}
            )
        except NotFound as problem:
            if problem.kind == "key-not-found":
                return None
            raise
        found, created = revision_of(answer.headers, path), answer.headers.get("Js-Created", "")
        return Entry(self.name, key, found, created, "PUT", answer.content)

    async def put(self, key: str, value: Payload) -> int:
        """Store a value; return its revision."""
        return await self._write(key, value, {})

    async def create(self, key: str, value: Payload, *, ttl: str = "") -> int:
        """Store a value if the key has none; return its revision.

        `ttl` is its lifetime, such as `10s`; "": no limit. Raises PreconditionFailed if the key has
        a value.
        """
        lifetime = {"Nats-TTL": ttl} if ttl else {}
        return await self._write(key, value, {"If-None-Match": "*", **lifetime})

    async def update(self, key: str, value: Payload, revision: int) -> int:
        """Store a value if the last one has this revision; return the new revision.

        Raises PreconditionFailed if the last value has another revision.
        """
        return await self._write(key, value, {"If-Match": f'"{revision}"'})

    async def _write(self, key: str, value: Payload, headers: dict[str, str]) -> int:
        content, media_type = encoded(value)
        if media_type:
            headers = {"Content-Type": media_type, **headers}
        path = path_of("kv", self.name, key)
        return int((await self._changed("PUT", path, headers, content)).json()["revision"])

    async def _changed(
        self, method: str, path: str, headers: dict[str, str], content: bytes = b""
    ) -> Any:
        ident = str(uuid4())
        sent = {"Idempotency-Key": ident, **headers}

        async def before(_attempt: int) -> None:
            await self._transport.refuse_large(len(content))

        return await self._transport.repeat(
            method, path, what=ident, before=before, content=content, headers=sent
        )

    async def delete(self, key: str, *, revision: int | None = None) -> None:
        """Delete a key: append a marker to its history. With `revision`, only if that is its last
        one.

        Raises PreconditionFailed if the last value has another revision.
        """
        headers = {} if revision is None else {"If-Match": f'"{revision}"'}
        await self._changed("DELETE", path_of("kv", self.name, key), headers)

    async def purge(self, key: str, *, revision: int | None = None, ttl: str = "") -> None:
        """Remove the values of a key; a marker remains, for `ttl` (such as `10s`; "": no limit).

        With `revision`, only if that is the last one. Raises PreconditionFailed if it is not.
        """
        headers = {} if revision is None else {"If-Match": f'"{revision}"'}
        if ttl:
            headers["Nats-TTL"] = ttl
        await self._changed("POST", path_of("kv", self.name, key, verb="purge"), headers)

    async def history(self, key: str) -> list[Entry]:
        """Return the stored revisions of a key with markers, oldest first.

        Raises NotFound if there is none.
        """
        path = path_of("kv", self.name, key, verb="history")
        answer = await self._transport.send("GET", path, headers={"Accept": NDJSON})
        return [_entry(line) for line in answer.content.decode().split("\n") if line]

    async def keys(self, *filters: str) -> list[str]:
        """Return the keys that have a value and match one of the filters (no filter: all keys)."""
        path = path_of("kv", self.name, verb="keys")
        answer = await self._transport.send("GET", path, params=_query(filters))
        return [each["key"] for each in answer.json()["keys"]]

    async def watch(
        self,
        *filters: str,
        history: bool = False,
        updates_only: bool = False,
        ignore_deletes: bool = False,
        meta_only: bool = False,
    ) -> AsyncIterator[Change]:
        """Yield the current entries, then changes; resumes after lost connections and restarts.

        `filters`: keys with wildcards; none: all. `history`: begin with all stored revisions.
        `updates_only`: omit current entries. `ignore_deletes`: omit markers. `meta_only`: entries
        have no values.
        """
        options = {
            "history": history,
            "updates_only": updates_only,
            "ignore_deletes": ignore_deletes,
            "meta_only": meta_only,
        }
        query = _query(filters) | {name: "true" for name, on in options.items() if on}
        path = path_of("kv", self.name, verb="watch")
        is_ready = False
        async for event in follow(self._transport, path, query, resumes=True):
            if event is None:
                continue
            if event.event == "open":
                if json.loads(event.data).get("recovered") is False:
                    is_ready = False
                    yield Change("reset", event.id)
            elif event.event == "ready":
                if not is_ready:
                    is_ready = True
                    yield Change("ready", event.id)
            else:
                yield Change(event.event, event.id, _entry(event.data))


def _query(filters: Iterable[str]) -> dict[str, str]:
    keys = ",".join(filters)
    return {"keys": keys} if keys else {}


def _entry(text: str) -> Entry:
    shown, value = members(text)
    return Entry(
        shown["bucket"],
        shown["key"],
        shown["revision"],
        shown["created"],
        shown["operation"],
        value,
    )
