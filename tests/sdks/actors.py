"""Those who publish, fetch and keep keys, each in its own way: all of them do the same."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import jetgate_client
import nats
from nats.js import JetStreamContext
from nats.js.errors import KeyNotFoundError

from tests.gateway.web import Web
from tests.support.node_packages import node_packages
from tests.support.programs import node, node_environment

_SCRIPT = Path(__file__).parent / "typescript/actor.mjs"
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
        await self._held.ack_sync()

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
        self._settle("nak")

    async def ack(self) -> None:
        self._settle("ack")

    def _settle(self, verb: str) -> None:
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


class Node:
    """Somebody in a process of Node: the official JavaScript client, or the TypeScript SDK."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def _do(self, act: str, **said: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"act": act, **said}).encode() + b"\n")
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
        said = {"bucket": bucket, "key": key, "text": text, "revision": revision}
        return int(await self._do("update", **said))

    async def get(self, bucket: str, key: str) -> Value | None:
        found = await self._do("get", bucket=bucket, key=key)
        return None if found is None else (found[0], found[1])

    async def delete(self, bucket: str, key: str) -> None:
        await self._do("delete", bucket=bucket, key=key)


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
        async with (
            jetgate_client.connect(url) as js,
            _in_node("nats.js", nats_url) as official,
            _in_node(os.fspath(sdk), url) as typescript,
        ):
            yield {
                "nats-py": NatsPy(client.jetstream()),
                "nats.js": official,
                "REST": Rest(http),
                "Python SDK": PythonSdk(js),
                "TypeScript SDK": typescript,
            }
    finally:
        await client.close()
