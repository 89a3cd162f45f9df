"""The client of a jetgate server, `Jetgate`, and the function `connect` that creates it."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from jetgate_client import events, publishing
from jetgate_client.consuming import Consumption, Delivery, Fetch, send_acks
from jetgate_client.errors import OutcomeUnknown, Problem
from jetgate_client.generated import Client
from jetgate_client.generated.api.consumers import put_consumer
from jetgate_client.generated.api.kv import put_kv_bucket
from jetgate_client.generated.api.objects import put_object_store
from jetgate_client.generated.api.streams import put_stream
from jetgate_client.generated.models import (
    ConsumerConfig,
    ConsumerInfo,
    KvConfig,
    ObjectStoreConfig,
    StreamConfig,
    StreamInfo,
)
from jetgate_client.kv import Bucket
from jetgate_client.objects import ObjectStore
from jetgate_client.payloads import Message, Payload
from jetgate_client.publishing import Outgoing, Receipt
from jetgate_client.retrying import Retry
from jetgate_client.socket import Socket
from jetgate_client.tail import Gap, tail
from jetgate_client.transport import Bearer, Transport, path_of

T = TypeVar("T")


def connect(
    url: str = "http://localhost:8080",
    *,
    token: str | Callable[[], str] = "",
    user: str = "",
    password: str = "",
    retry: Retry | None = None,
    timeout: float = 30.0,
    verify: Any = True,
) -> "Jetgate":
    """Create a client of the server at `url`; no request is sent yet.

    Args:
        url: HTTP address of the server.
        token: Bearer token, or a function that returns it, called before each request.
        user: User of HTTP basic authentication, with `password`.
        password: Password of the user.
        retry: Waits between attempts, and limits of retries; None: the defaults of `Retry`.
        timeout: Maximum time of a request, in seconds.
        verify: Verification of TLS certificates, as in httpx: an `ssl.SSLContext` for a private
            certificate.
    """
    transport = Transport(
        url,
        auth=Bearer(token) if token else httpx.BasicAuth(user, password) if user else None,
        retry=retry or Retry(),
        timeout=timeout,
        verify=verify,
    )
    return Jetgate(url, transport)


class Jetgate:
    """A client of a jetgate server; `aclose` or the end of `async with` closes it.

    Attributes:
        api: The `client` argument of the functions in `jetgate_client.generated.api`, one for each
            HTTP operation of the server. These functions raise Problem, too.
    """

    def __init__(self, url: str, transport: Transport) -> None:
        self._transport = transport
        self.api = Client(base_url=url, raise_on_unexpected_status=True)
        self.api.set_async_httpx_client(transport.http)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End open iterations, and close the connections."""
        await self._transport.aclose()

    async def put_stream(self, name: str, **config: Any) -> StreamInfo:
        """Create a stream, or replace its configuration; `config`: members of StreamConfig.

        Raises Problem if the server refuses, ConnectionLost if it does not answer.
        """
        body = StreamConfig.from_dict({"name": name, **config})
        return _there(await put_stream.asyncio(name, client=self.api, body=body))

    async def put_consumer(self, stream: str, name: str, **config: Any) -> ConsumerInfo:
        """Create a durable consumer, or replace its configuration; `config`: members of
        ConsumerConfig.

        Raises Problem if the server refuses, ConnectionLost if it does not answer.
        """
        body = ConsumerConfig.from_dict({"durable_name": name, **config})
        return _there(await put_consumer.asyncio(stream, name, client=self.api, body=body))

    async def put_bucket(self, name: str, **config: Any) -> Bucket:
        """Create a key-value bucket, or replace its configuration; `config`: members of KvConfig.

        Raises Problem if the server refuses, ConnectionLost if it does not answer.
        """
        body = KvConfig.from_dict({"bucket": name, **config})
        _there(await put_kv_bucket.asyncio(name, client=self.api, body=body))
        return self.bucket(name)

    def bucket(self, name: str) -> Bucket:
        """Return an existing key-value bucket, without a request."""
        return Bucket(self._transport, name)

    async def put_store(self, name: str, **config: Any) -> ObjectStore:
        """Create an object store, or replace its configuration; `config`: members of
        ObjectStoreConfig.

        Raises Problem if the server refuses, ConnectionLost if it does not answer.
        """
        body = ObjectStoreConfig.from_dict({"bucket": name, **config})
        _there(await put_object_store.asyncio(name, client=self.api, body=body))
        return self.store(name)

    def store(self, name: str) -> ObjectStore:
        """Return an existing object store, without a request."""
        return ObjectStore(self._transport, name)

    async def publish(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        headers: Mapping[str, str] | None = None,
        msg_id: str = "",
        last_seq: int | None = None,
        ttl: str = "",
    ) -> Receipt:
        """Publish a message to a stream; return after it is stored.

        The message is sent with its id until the server answers. Raises Problem if the server
        refuses it, OutcomeUnknown if no answer arrives within the limit of retries.

        Args:
            subject: Subject of the message.
            payload: Its payload.
            headers: Its headers.
            msg_id: Id for deduplication; "" generates one.
            last_seq: Store only if this is the last sequence of the subject; 0: if it has no
                message.
            ttl: Lifetime of the message, such as `10s`; "": no limit.
        """
        return await publishing.publish(
            self._transport,
            subject,
            payload,
            headers=headers or {},
            msg_id=msg_id,
            last_seq=last_seq,
            ttl=ttl,
        )

    async def publish_many(
        self, messages: Iterable[Outgoing]
    ) -> list[Receipt | Problem | OutcomeUnknown]:
        """Publish messages, up to 1000 per request; return the outcome of each, in order.

        An outcome is a receipt, or the error that `publish` would raise.
        """
        return await publishing.publish_many(self._transport, messages)

    async def request(
        self,
        subject: str,
        payload: Payload = b"",
        *,
        headers: Mapping[str, str] | None = None,
        within: float = 5.0,
    ) -> Message:
        """Send a request to a service once, and return the first answer.

        Raises Problem if the server refuses or no service answers, ConnectionLost if the server
        does not answer. `within` is the maximum time, in seconds.
        """
        return await publishing.request(
            self._transport, subject, payload, headers=headers or {}, within=within
        )

    async def message(self, stream: str, seq: int) -> Message:
        """Return the message of a stream with this sequence. Raises NotFound if there is none."""
        return await publishing.read(
            self._transport, path_of("streams", stream, "messages", str(seq))
        )

    async def last_message(self, stream: str, subject: str) -> Message:
        """Return the last message of a subject in a stream. Raises NotFound if there is none."""
        path = path_of("streams", stream, "messages")
        return await publishing.read(self._transport, path, last_by=subject)

    def consume(
        self,
        stream: str,
        consumer: str,
        *,
        batch: int = 100,
        expires: float = 30.0,
        heartbeat: float = 5.0,
        max_bytes: int | None = None,
        **place: Any,
    ) -> Consumption:
        """Return an endless iteration over the messages of a consumer.

        Args:
            stream: The name of the stream.
            consumer: The name of the consumer.
            batch: Maximum number of messages per fetch; use 1 if each takes long.
            expires: Seconds that a fetch waits for messages.
            heartbeat: Seconds between heartbeats of the server; after two missing ones the client
                reconnects.
            max_bytes: Maximum size of the messages of a fetch, in bytes; None: the server's limit.
            **place: In a priority group: `group`, `priority`, `min_pending`, `min_ack_pending`.
        """
        fetch = Fetch(stream, consumer, batch, expires, heartbeat, max_bytes, place)
        return Consumption(self._transport, fetch)

    async def ack(self, deliveries: Iterable[Delivery], *, sync: bool = False) -> None:
        """Acknowledge many deliveries with few requests; `sync`: wait until the acks are recorded.

        Raises the first Problem of a delivery, or OutcomeUnknown if the server does not confirm.
        """
        await send_acks(self._transport, "ack", deliveries, sync=sync)

    def tail(
        self, stream: str, *, subject: str = "", begin: str = "new"
    ) -> AsyncIterator[Message | Gap]:
        """Yield the messages of a stream as they are stored, and a Gap where messages may be
        missing.

        Args:
            stream: The name of the stream.
            subject: Subject filter; "" for all subjects.
            begin: The start: `new`, `all`, `last`, `last_per_subject`, a sequence, or a time in RFC
                3339.
        """
        return tail(self._transport, stream, subject, begin)

    def socket(self) -> Socket:
        """Return a socket for feeds and publishes over one WebSocket, opened at first use."""
        return Socket(self._transport)

    def advisories(self, subject: str = "") -> AsyncIterator[events.Event]:
        """Yield JetStream advisories as they are published; `subject` filters them ("": all)."""
        return events.advisories(self._transport, subject)


def _there(answer: T | None) -> T:
    assert answer is not None, "what is no success is raised"
    return answer
