"""The JetStream API of the client: publish, pull, acknowledge, read, manage.

Every call is a request on `$JS.API.>` or on a subject of a stream. An error response of the server
is raised as `ApiError` with its code, number and text. Without a response a call raises a
`ClientError`, such as RequestTimeout or ConnectionLost.
"""

from base64 import b64decode
from collections.abc import Sequence
from typing import Any

import msgspec

from core.client.answers import Answers
from core.client.client import Client
from core.client.errors import NoResponders
from core.client.msg import Msg, status_of
from core.client.pull import Fetched, Pull
from core.client.replies import ReplyBatch
from core.errors import ApiError
from core.goinput import text_of
from core.model.api_errors import api_error
from core.model.codec import decode_lenient, encode
from core.model.consumer import (
    Action,
    ConsumerConfig,
    ConsumerInfo,
    CreateConsumerRequest,
    NextRequest,
)
from core.model.gotime import parse_time
from core.model.message import MsgGetRequest, PubAck, StoredMsg
from core.model.response import ErrorBody, Response
from core.model.stream import StreamConfig, StreamInfo, StreamPurgeRequest
from core.protocol.messages import MessageColumns
from core.runtime.nuid import nuid
from core.units import NANOS_PER_SECOND

_PULL_GRACE_S = 1.0


class _Message(msgspec.Struct):
    subject: str = ""
    seq: int = 0
    time: str = ""
    hdrs: str = ""
    data: str = ""


class _MsgGet(msgspec.Struct):
    """The response of STREAM.MSG.GET.

    It is decoded by msgspec, because `core.model.codec` is slow on large payloads.
    """

    message: _Message | None = None
    error: ErrorBody | None = None


class JetStream:
    """The JetStream API over a client connection.

    Args:
        client: The connection.
        timeout: Longest wait for the response of each request, in seconds.
        prefix: Prefix of the API subjects, for example `$JS.hub.API` for a domain.
    """

    def __init__(self, client: Client, *, timeout: float = 5.0, prefix: str = "$JS.API") -> None:
        self.client = client
        self.timeout = timeout
        self.prefix = prefix

    async def call(self, verb: str, body: object = None) -> dict[str, Any]:
        """Send an API request and return the decoded JSON response.

        Args:
            verb: The API subject without its prefix, such as `STREAM.INFO.ORDERS`.
            body: JSON bytes, a value to encode as JSON, or None for an empty request.

        Raises:
            ApiError: The response has an error.
            ClientError: There is no response.
        """
        payload = b""
        if isinstance(body, bytes):
            payload = body
        elif body is not None:
            payload = msgspec.json.encode(body)
        subject = f"{self.prefix}.{verb}".encode()
        msg = await self.client.request(subject, payload, within=self.timeout)
        reply: dict[str, Any] = msgspec.json.decode(msg.payload)
        if (error := reply.get("error")) is not None:
            raise ApiError(error["code"], error.get("err_code", 0), error.get("description", ""))
        return reply

    # -- publishing --------------------------------------------------------------------------

    async def publish(self, subject: bytes, payload: bytes, headers: bytes = b"") -> PubAck:
        """Publish one message to a stream and return the acknowledgement.

        Raises ApiError if the stream refuses the message, NoResponders if no stream has the
        subject, and ValueError if the reply is no acknowledgement of a stream.
        """
        msg = await self.client.request(subject, payload, headers=headers, within=self.timeout)
        return read_ack(msg.payload)

    def start_many(self, batch: MessageColumns) -> ReplyBatch:
        """Publish messages in one buffer, each with its own reply subject.

        The result collects the acknowledgements, in order and undecoded (see `read_ack`). Raises
        ConnectionLost while there is no connection.
        """
        headers = batch.headers if batch.has_headers else None
        return self.client.request_many(batch.subjects, batch.payloads, headers)

    # -- reading -----------------------------------------------------------------------------

    def pull(self, stream: str, consumer: str, request: NextRequest, *, ack: bytes = b"") -> Pull:
        """Send a pull request to a consumer; the result collects messages until the request ends.

        `ack`: reply subject of a delivery that the request also acknowledges (`+NXT`); empty: none.
        Call `Pull.release` at the end. Raises ConnectionLost while there is no connection.
        """
        subject = f"{self.prefix}.CONSUMER.MSG.NEXT.{stream}.{consumer}".encode()
        return Pull(self.client, ack or subject, request, is_ack=bool(ack))

    async def fetch(self, stream: str, consumer: str, request: NextRequest) -> Fetched:
        """Send a pull request to a consumer, and return its messages when the request has ended."""
        pull = self.pull(stream, consumer, request)
        try:
            limit = request.expires / NANOS_PER_SECOND if request.expires else self.timeout
            while not pull.ended and await pull.changed(limit + _PULL_GRACE_S):
                pass
        finally:
            await pull.release()
        return pull.result()

    async def ack(self, replies: Sequence[bytes], payloads: Sequence[bytes]) -> None:
        """Send one acknowledgement (`+ACK`, `-NAK`, ...) to each reply subject, without waiting."""
        for reply in replies:
            self.client.check(reply)
        parts = [
            b"PUB %s %d\r\n%s\r\n" % (reply, len(payload), payload)
            for reply, payload in zip(replies, payloads, strict=True)
        ]
        self.client.write(b"".join(parts))

    async def message(self, stream: str, request: MsgGetRequest) -> StoredMsg:
        """Read one message of a stream: by Direct Get if the stream allows it, else by MSG.GET.

        Raises ApiError JSNoMessageFound if none matches, JSStreamNotFound if there is no such
        stream.
        """
        try:
            return await self.direct_get(stream, request)
        except NoResponders:
            return await self.msg_get(stream, request)

    async def last(self, stream: str, subject: str) -> StoredMsg:
        """Read the last message of one subject of a stream.

        The API subject of Direct Get ends with the subject, so permissions can refer to it. Falls
        back to MSG.GET and raises errors as `message` does.
        """
        api_subject = f"{self.prefix}.DIRECT.GET.{stream}.{subject}".encode()
        try:
            return _found(await self.client.request(api_subject, within=self.timeout))
        except NoResponders:
            return await self.msg_get(stream, MsgGetRequest(last_by_subj=subject))

    async def direct_get(self, stream: str, request: MsgGetRequest) -> StoredMsg:
        """Read one message of a stream by Direct Get.

        Raises NoResponders if the stream does not allow it, ApiError JSNoMessageFound if none
        matches.
        """
        subject = f"{self.prefix}.DIRECT.GET.{stream}".encode()
        return _found(await self.client.request(subject, encode(request), within=self.timeout))

    def direct_batch(self, stream: str, request: MsgGetRequest) -> Answers:
        """Request many messages of a stream by Direct Get; decode each reply with `direct_message`.

        A status ends the replies: 204 after the last message, 404 if there are none, 503 if Direct
        Get is not allowed. Call `Answers.release` at the end. Raises ConnectionLost without a
        connection.
        """
        subject = f"{self.prefix}.DIRECT.GET.{stream}".encode()
        return Answers(self.client, subject, encode(request))

    async def msg_get(self, stream: str, request: MsgGetRequest) -> StoredMsg:
        """Read one message of a stream by STREAM.MSG.GET.

        Raises ApiError JSNoMessageFound if none matches.
        """
        subject = f"{self.prefix}.STREAM.MSG.GET.{stream}".encode()
        msg = await self.client.request(subject, encode(request), within=self.timeout)
        reply = msgspec.json.decode(msg.payload, type=_MsgGet)
        _raise_error(reply.error)
        message = reply.message or _Message()
        return StoredMsg(
            subject=message.subject,
            seq=message.seq,
            hdrs=b64decode(message.hdrs),
            data=b64decode(message.data),
            time=parse_time(message.time),
        )

    # -- management, typed -------------------------------------------------------------------

    async def create_stream(self, config: StreamConfig) -> StreamInfo:
        """Create a stream. Succeeds too if it exists with the same configuration."""
        return await self._stream("CREATE", config.name, encode(config))

    async def update_stream(self, config: StreamConfig) -> StreamInfo:
        """Replace the configuration of a stream."""
        return await self._stream("UPDATE", config.name, encode(config))

    async def stream_info(self, stream: str) -> StreamInfo:
        """Return the configuration and state of a stream."""
        return await self._stream("INFO", stream, b"")

    async def delete_stream(self, stream: str) -> None:
        """Delete a stream with its consumers and messages."""
        await self.call(f"STREAM.DELETE.{stream}")

    async def purge_stream(self, stream: str, request: StreamPurgeRequest | None = None) -> int:
        """Purge messages of a stream; return the number of removed messages.

        `request` limits the purge by subject, sequence or number; None: all messages.
        """
        body = encode(request) if request is not None else None
        purged: int = (await self.call(f"STREAM.PURGE.{stream}", body))["purged"]
        return purged

    async def stream_names(self, subject: str) -> tuple[str, ...]:
        """Return names of streams whose subjects overlap `subject`: one page, at most 1024."""
        answer = await self.call("STREAM.NAMES", {"subject": subject})
        return tuple(answer.get("streams") or ())

    async def create_consumer(self, stream: str, config: ConsumerConfig) -> ConsumerInfo:
        """Create or update a consumer. Without a name it gets a random one and is ephemeral."""
        name = config.durable_name or config.name or nuid(8)
        request = CreateConsumerRequest(stream_name=stream, config=config)
        return await self._consumer(f"CREATE.{stream}.{name}", encode(request))

    async def create_ephemeral(self, stream: str, config: ConsumerConfig) -> ConsumerInfo:
        """Create an ephemeral consumer with a random unique name.

        If it has one filter subject, the API subject ends with it, so permissions can refer to it.
        """
        name = nuid()
        named = msgspec.structs.replace(config, name=name)
        place = f".{config.filter_subject}" if config.filter_subject else ""
        request = CreateConsumerRequest(stream_name=stream, config=named)
        return await self._consumer(f"CREATE.{stream}.{name}{place}", encode(request))

    async def add_consumer(self, stream: str, config: ConsumerConfig) -> ConsumerInfo:
        """Create a consumer that must not exist yet, by the API subjects of ADR-15.

        Without a durable name it is ephemeral, and the server chooses its name. Raises ApiError
        JSConsumerAlreadyExists if a consumer of that name exists.
        """
        durable = config.durable_name
        verb = f"DURABLE.CREATE.{stream}.{durable}" if durable else f"CREATE.{stream}"
        request = CreateConsumerRequest(stream_name=stream, config=config, action=Action.CREATE)
        return await self._consumer(verb, encode(request))

    async def consumer_info(self, stream: str, consumer: str) -> ConsumerInfo:
        """Return the configuration and state of a consumer."""
        return await self._consumer(f"INFO.{stream}.{consumer}", b"")

    async def delete_consumer(self, stream: str, consumer: str) -> None:
        """Delete a consumer."""
        await self.call(f"CONSUMER.DELETE.{stream}.{consumer}")

    async def _stream(self, verb: str, stream: str, body: bytes) -> StreamInfo:
        subject = f"{self.prefix}.STREAM.{verb}.{stream}".encode()
        msg = await self.client.request(subject, body, within=self.timeout)
        _raise_error(msgspec.json.decode(msg.payload, type=Response).error)
        return decode_lenient(StreamInfo, msg.payload)

    async def _consumer(self, verb: str, body: bytes) -> ConsumerInfo:
        subject = f"{self.prefix}.CONSUMER.{verb}".encode()
        msg = await self.client.request(subject, body, within=self.timeout)
        _raise_error(msgspec.json.decode(msg.payload, type=Response).error)
        return decode_lenient(ConsumerInfo, msg.payload)


def _raise_error(error: ErrorBody | None) -> None:
    if error is not None:
        raise ApiError(error.code, error.err_code, error.description)


def read_ack(payload: bytes) -> PubAck:
    """Decode the acknowledgement of a publish.

    Raises ApiError if the stream refused the message, ValueError for any other JSON.
    """
    ack = msgspec.json.decode(payload, type=PubAck)
    _raise_error(ack.error)
    if not ack.stream:
        raise ValueError("not a publish acknowledgement")
    return ack


def _found(msg: Msg) -> StoredMsg:
    code, text = status_of(msg.headers)
    if code == 404:
        raise api_error("JSNoMessageFound")
    if code:
        raise ApiError(code, 0, text)
    return direct_message(msg)


def direct_message(msg: Msg) -> StoredMsg:
    """Decode a reply of Direct Get as a stored message."""
    # The server appends four headers, six in a batch. Earlier headers of the same names belong to
    # the stored message.
    lines = msg.headers[:-4].split(b"\r\n")
    added = 6 if lines[-1].startswith(b"Nats-Last-Sequence: ") else 4
    own = dict(line.split(b": ", 1) for line in lines[-added:])
    stored = lines[:-added]
    return StoredMsg(
        subject=text_of(own[b"Nats-Subject"]),
        seq=int(own[b"Nats-Sequence"]),
        hdrs=b"\r\n".join(stored) + b"\r\n\r\n" if len(stored) > 1 else b"",
        data=msg.payload,
        time=parse_time(own[b"Nats-Time-Stamp"].decode()),
    )
