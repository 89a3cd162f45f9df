"""Those who publish, fetch and keep keys, each in its own way: all of them do the same."""

import asyncio
import json
import os
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import jetgate_client
import nats
from nats.js import JetStreamContext
from nats.js.errors import KeyNotFoundError, ObjectDeletedError, ObjectNotFoundError

from tests.gateway.sockets import Socket
from tests.gateway.web import Web
from tests.support.node_packages import node_packages
from tests.support.programs import node, node_environment

_SCRIPT = Path(__file__).parent / "typescript/actor.mjs"
_CHUNK = 64 * 1024
Value = tuple[str, int]


class Actor(Protocol):
    """What everybody can do; `fetch` holds the delivery that `nak` and `ack` are about."""

    async def publish(self, subject: str, text: str) -> None: ...

    async def fetch(self, stream: str, consumer: str) -> Value:
        """The text of the next message, and how often it was delivered."""
        ...

    async def nak(self) -> None: ...

    async def ack(self) -> None: ...

    async def put(self, bucket: str, key: str, text: str) -> int: ...

    async def update(self, bucket: str, key: str, text: str, revision: int) -> int: ...

    async def get(self, bucket: str, key: str) -> Value | None:
        """The text and the revision of a key."""
        ...

    async def delete(self, bucket: str, key: str) -> None: ...

    async def put_object(self, bucket: str, name: str, text: str) -> None: ...

    async def get_object(self, bucket: str, name: str) -> str | None:
        """The text of an object."""
        ...

    async def delete_object(self, bucket: str, name: str) -> None: ...


class NatsPy:
    """The official Python client."""

    def __init__(self, js: JetStreamContext) -> None:
        self._js = js
        self._held: Any = None

    async def publish(self, subject: str, text: str) -> None:
        await self._js.publish(subject, text.encode())

    async def fetch(self, stream: str, consumer: str) -> Value:
        pulled = await self._js.pull_subscribe_bind(consumer, stream)
        [self._held] = await pulled.fetch(1, timeout=20)
        await pulled.unsubscribe()
        return self._held.data.decode(), self._held.metadata.num_delivered

    async def nak(self) -> None:
        await self._held.nak()

    async def ack(self) -> None:
        await self._held.ack_sync(timeout=30)

    async def put(self, bucket: str, key: str, text: str) -> int:
        return await (await self._js.key_value(bucket)).put(key, text.encode())

    async def update(self, bucket: str, key: str, text: str, revision: int) -> int:
        return await (await self._js.key_value(bucket)).update(key, text.encode(), revision)

    async def get(self, bucket: str, key: str) -> Value | None:
        try:
            entry = await (await self._js.key_value(bucket)).get(key)
        except KeyNotFoundError:
            return None
        assert entry.value is not None
        assert entry.revision is not None
        return entry.value.decode(), entry.revision

    async def delete(self, bucket: str, key: str) -> None:
        await (await self._js.key_value(bucket)).delete(key)

    async def put_object(self, bucket: str, name: str, text: str) -> None:
        await (await self._js.object_store(bucket)).put(name, text.encode())

    async def get_object(self, bucket: str, name: str) -> str | None:
        store = await self._js.object_store(bucket)
        try:
            found = await store.get(name)
        except (ObjectNotFoundError, ObjectDeletedError):
            return None
        assert found.data is not None
        return found.data.decode()

    async def delete_object(self, bucket: str, name: str) -> None:
        await (await self._js.object_store(bucket)).delete(name)


class Rest:
    """HTTP by hand."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._web = Web(address)
        self._path = ""
        self._token = ""

    async def publish(self, subject: str, text: str) -> None:
        answer = self._web.publish(subject, text.encode())
        assert answer.status == 201, answer

    async def fetch(self, stream: str, consumer: str) -> Value:
        self._path = f"/v1/streams/{stream}/consumers/{consumer}"
        answer = self._web.json("POST", f"{self._path}:fetch", {"batch": 1})
        [message] = answer.json()["messages"]
        self._token = message["token"]
        return message["text"], message["delivered"]

    async def nak(self) -> None:
        self._acknowledge("nak")

    async def ack(self) -> None:
        self._acknowledge("ack")

    def _acknowledge(self, verb: str) -> None:
        body = {"tokens": [self._token], "sync": True}
        assert self._web.json("POST", f"{self._path}:{verb}", body).json()["succeeded"] == 1

    async def put(self, bucket: str, key: str, text: str) -> int:
        return self._put(bucket, key, text, {})

    async def update(self, bucket: str, key: str, text: str, revision: int) -> int:
        return self._put(bucket, key, text, {"If-Match": f'"{revision}"'})

    def _put(self, bucket: str, key: str, text: str, headers: dict[str, str]) -> int:
        answer = self._web.send("PUT", f"/v1/kv/{bucket}/{key}", text.encode(), headers)
        return int(answer.json()["revision"])

    async def get(self, bucket: str, key: str) -> Value | None:
        answer = self._web.get(f"/v1/kv/{bucket}/{key}")
        if answer.status == 404:
            return None
        return answer.body.decode(), int((answer.headers["ETag"] or "").strip('"'))

    async def delete(self, bucket: str, key: str) -> None:
        assert self._web.delete(f"/v1/kv/{bucket}/{key}").status == 204

    async def put_object(self, bucket: str, name: str, text: str) -> None:
        answer = self._web.send("PUT", f"/v1/objects/{bucket}/{name}", text.encode())
        assert answer.status == 201, answer

    async def get_object(self, bucket: str, name: str) -> str | None:
        answer = self._web.get(f"/v1/objects/{bucket}/{name}")
        return None if answer.status == 404 else answer.body.decode()

    async def delete_object(self, bucket: str, name: str) -> None:
        assert self._web.delete(f"/v1/objects/{bucket}/{name}").status == 204


class WebSocket:
    """Frames by hand: keys and objects are messages of their streams."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._token = ""
        self._sid = 0

    async def publish(self, subject: str, text: str) -> None:
        self._publish(subject, text)

    def _publish(self, subject: str, text: str, **members: Any) -> int:
        answer = self._socket.ask("pub", subject=subject, text=text, **members)
        assert answer["type"] == "published", answer
        return int(answer["seq"])

    def _feed(self, **followed: Any) -> int:
        self._sid += 1
        answer = self._socket.ask("sub", sid=self._sid, **followed)
        assert answer["type"] == "subscribed", answer
        return self._sid

    async def fetch(self, stream: str, consumer: str) -> Value:
        sid = self._feed(stream=stream, consumer=consumer, credit={"msgs": 1})
        [message] = self._socket.messages(sid, 1)
        assert self._socket.ask("unsub", sid=sid)["type"] == "done"
        self._token = message["token"]
        return message["text"], message["delivered"]

    async def nak(self) -> None:
        self._acknowledge("nak")

    async def ack(self) -> None:
        self._acknowledge("ack")

    def _acknowledge(self, verb: str) -> None:
        assert self._socket.ask(verb, tokens=[self._token], sync=True)["succeeded"] == 1

    async def put(self, bucket: str, key: str, text: str) -> int:
        return self._publish(f"$KV.{bucket}.{key}", text)

    async def update(self, bucket: str, key: str, text: str, revision: int) -> int:
        expect = {"last_subject_seq": revision}
        return self._publish(f"$KV.{bucket}.{key}", text, expect=expect)

    async def get(self, bucket: str, key: str) -> Value | None:
        found = self._last(f"KV_{bucket}", f"$KV.{bucket}.{key}")
        if found is None or "KV-Operation" in found.get("headers", {}):
            return None
        return found["text"], found["seq"]

    def _last(self, stream: str, subject: str) -> dict[str, Any] | None:
        answer = self._socket.ask("get", stream=stream, last_by=subject)
        return answer.get("message")

    async def delete(self, bucket: str, key: str) -> None:
        self._publish(f"$KV.{bucket}.{key}", "", headers={"KV-Operation": "DEL"})

    async def put_object(self, bucket: str, name: str, text: str) -> None:
        nuid = f"by-hand-{self._sid}-{name}"
        pieces = [text[at : at + _CHUNK] for at in range(0, len(text), _CHUNK)]
        for piece in pieces:
            self._publish(f"$O.{bucket}.C.{nuid}", piece)
        digest = urlsafe_b64encode(sha256(text.encode()).digest()).decode()
        fields = {"nuid": nuid, "size": len(text), "chunks": len(pieces)}
        self._describe(bucket, name, fields | {"digest": f"SHA-256={digest}"})

    def _describe(self, bucket: str, name: str, fields: dict[str, Any]) -> None:
        info = {"bucket": bucket, "name": name, "mtime": "2026-01-01T00:00:00Z", **fields}
        headers = {"Nats-Rollup": "sub"}
        self._publish(_meta(bucket, name), json.dumps(info), headers=headers)

    async def get_object(self, bucket: str, name: str) -> str | None:
        info = self._info(bucket, name)
        if info is None or info.get("deleted"):
            return None
        chunks = f"$O.{bucket}.C.{info['nuid']}"
        sid = self._feed(stream=f"OBJ_{bucket}", filter=chunks, **{"from": "all"})
        messages = self._socket.messages(sid, info["chunks"])
        assert self._socket.ask("unsub", sid=sid)["type"] == "done"
        return "".join(message["text"] for message in messages)

    def _info(self, bucket: str, name: str) -> dict[str, Any] | None:
        found = self._last(f"OBJ_{bucket}", _meta(bucket, name))
        data: dict[str, Any] | None = None if found is None else found["data"]
        return data

    async def delete_object(self, bucket: str, name: str) -> None:
        info = self._info(bucket, name)
        assert info is not None
        gone = {"nuid": info["nuid"], "size": 0, "chunks": 0, "digest": "", "deleted": True}
        self._describe(bucket, name, gone)


def _meta(bucket: str, name: str) -> str:
    return f"$O.{bucket}.M.{urlsafe_b64encode(name.encode()).decode()}"


class PythonSdk:
    """The Python SDK."""

    def __init__(self, js: jetgate_client.Jetgate) -> None:
        self._js = js
        self._held: jetgate_client.Delivery | None = None

    async def publish(self, subject: str, text: str) -> None:
        await self._js.publish(subject, text)

    async def fetch(self, stream: str, consumer: str) -> Value:
        async with self._js.consume(stream, consumer, batch=1) as messages:
            self._held = await anext(aiter(messages))
        return self._held.text(), self._held.delivered

    async def nak(self) -> None:
        assert self._held is not None
        await self._held.nak(sync=True)

    async def ack(self) -> None:
        assert self._held is not None
        await self._held.ack(sync=True)

    async def put(self, bucket: str, key: str, text: str) -> int:
        return await self._js.bucket(bucket).put(key, text)

    async def update(self, bucket: str, key: str, text: str, revision: int) -> int:
        return await self._js.bucket(bucket).update(key, text, revision)

    async def get(self, bucket: str, key: str) -> Value | None:
        entry = await self._js.bucket(bucket).get(key)
        return (entry.text(), entry.revision) if entry else None

    async def delete(self, bucket: str, key: str) -> None:
        await self._js.bucket(bucket).delete(key)

    async def put_object(self, bucket: str, name: str, text: str) -> None:
        await self._js.store(bucket).put(name, text)

    async def get_object(self, bucket: str, name: str) -> str | None:
        try:
            return (await self._js.store(bucket).get(name)).decode()
        except jetgate_client.NotFound:
            return None

    async def delete_object(self, bucket: str, name: str) -> None:
        await self._js.store(bucket).delete(name)


class Node:
    """Somebody in a process of Node: the official JavaScript client, or the TypeScript SDK."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def _do(self, act: str, **fields: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"act": act, **fields}).encode() + b"\n")
        line = await self._process.stdout.readline()
        assert line, f"{act} failed in Node"
        return json.loads(line)

    async def publish(self, subject: str, text: str) -> None:
        await self._do("publish", subject=subject, text=text)

    async def fetch(self, stream: str, consumer: str) -> Value:
        text, delivered = await self._do("fetch", stream=stream, consumer=consumer)
        return text, delivered

    async def nak(self) -> None:
        await self._do("nak")

    async def ack(self) -> None:
        await self._do("ack")

    async def put(self, bucket: str, key: str, text: str) -> int:
        return int(await self._do("put", bucket=bucket, key=key, text=text))

    async def update(self, bucket: str, key: str, text: str, revision: int) -> int:
        fields = {"bucket": bucket, "key": key, "text": text, "revision": revision}
        return int(await self._do("update", **fields))

    async def get(self, bucket: str, key: str) -> Value | None:
        found = await self._do("get", bucket=bucket, key=key)
        return None if found is None else (found[0], found[1])

    async def delete(self, bucket: str, key: str) -> None:
        await self._do("delete", bucket=bucket, key=key)

    async def put_object(self, bucket: str, name: str, text: str) -> None:
        await self._do("putObject", bucket=bucket, name=name, text=text)

    async def get_object(self, bucket: str, name: str) -> str | None:
        found: str | None = await self._do("getObject", bucket=bucket, name=name)
        return found

    async def delete_object(self, bucket: str, name: str) -> None:
        await self._do("deleteObject", bucket=bucket, name=name)


@asynccontextmanager
async def _in_node(how: str, url: str) -> AsyncIterator[Node]:
    modules = str(node_packages() / "node_modules")
    process = await asyncio.create_subprocess_exec(
        node(),
        str(_SCRIPT),
        how,
        url,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=1 << 24,  # bytes of a line
        env=node_environment(modules) | {"NODE_NO_WARNINGS": "1"},
    )
    try:
        yield Node(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


@asynccontextmanager
async def everybody(
    address: tuple[str, int], http: tuple[str, int], sdk: Path
) -> AsyncIterator[dict[str, Actor]]:
    """All of them, by name; `sdk` is the built module of TypeScript."""
    nats_url, url = (
        f"{kind}://{at[0]}:{at[1]}" for kind, at in (("nats", address), ("http", http))
    )
    client = await nats.connect(nats_url)
    try:
        with Socket(http) as socket:
            async with (
                jetgate_client.connect(url) as js,
                _in_node("nats.js", nats_url) as official,
                _in_node(os.fspath(sdk), url) as typescript,
            ):
                yield {
                    "nats-py": NatsPy(client.jetstream(timeout=30)),
                    "nats.js": official,
                    "REST": Rest(http),
                    "WebSocket": WebSocket(socket),
                    "Python SDK": PythonSdk(js),
                    "TypeScript SDK": typescript,
                }
    finally:
        await client.close()
