"""Publishing and requests over HTTP.

Each publish has a message id, so a retry stores no duplicate.
"""

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from jetgate_client.errors import OutcomeUnknown, Problem, is_passing, problem_from
from jetgate_client.payloads import Message, Payload, encoded
from jetgate_client.retrying import Backoff
from jetgate_client.transport import JSON, Transport, path_of

_BATCH = 1000
_BATCH_BYTES = 700_000  # the server accepts 1 MiB


@dataclass(frozen=True, slots=True)
class Receipt:
    """The receipt of a stored message.

    Attributes:
        duplicate: True if the message was stored before.
        domain: JetStream domain of the stream; "" for none.
        val: Value of a counter; "" for other streams.
    """

    stream: str
    seq: int
    duplicate: bool = False
    domain: str = ""
    val: str = ""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message to publish with `Jetgate.publish_many`; an empty `msg_id` is generated."""

    subject: str
    payload: Payload = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    msg_id: str = ""


Outcome = Receipt | Problem | OutcomeUnknown
"""The outcome of a published message: its receipt, or the error."""


async def publish(
    transport: Transport,
    subject: str,
    payload: Payload,
    *,
    headers: Mapping[str, str],
    msg_id: str,
    last_seq: int | None,
    ttl: str,
) -> Receipt:
    """Publish one message, and repeat it until the server answers (`Jetgate.publish`).

    Raises Problem if the server refuses, OutcomeUnknown without an answer within the limit of
    retries.
    """
    content, media_type = encoded(payload)
    sent = {f"Nats-H-{name}": value for name, value in headers.items()}
    sent["Nats-Msg-Id"] = msg_id = msg_id or str(uuid4())
    if media_type:
        sent["Content-Type"] = media_type
    if last_seq is not None:
        sent |= {"If-Match": f'"{last_seq}"'} if last_seq else {"If-None-Match": "*"}
    if ttl:
        sent["Nats-TTL"] = ttl
    path = path_of("subjects", subject)

    async def before(_attempt: int) -> None:
        await transport.refuse_large(len(content))

    answer = await transport.repeat(
        "POST", path, what=msg_id, before=before, content=content, headers=sent
    )
    return _receipt(answer.json())


def _receipt(fields: Mapping[str, Any]) -> Receipt:
    return Receipt(
        fields["stream"],
        fields["seq"],
        fields.get("duplicate", False),
        fields.get("domain", ""),
        fields.get("val", ""),
    )


async def publish_many(transport: Transport, messages: Iterable[Outgoing]) -> list[Outcome]:
    """Publish messages in batches of up to 1000; return the outcome of each, in order."""
    outcomes: list[Outcome] = []
    batch: list[bytes] = []
    ids: list[str] = []
    size = 0
    for message in messages:
        msg_id = message.msg_id or str(uuid4())
        line = _line(message, msg_id)
        if len(line) > _BATCH_BYTES:
            outcomes += await _settled(transport, batch, ids)
            batch, ids, size = [], [], 0
            outcomes.append(await _alone(transport, message, msg_id))
            continue
        ids.append(msg_id)
        batch.append(line)
        size += len(line)
        if len(batch) >= _BATCH or size >= _BATCH_BYTES:
            outcomes += await _settled(transport, batch, ids)
            batch, ids, size = [], [], 0
    return outcomes + (await _settled(transport, batch, ids) if batch else [])


async def _alone(transport: Transport, message: Outgoing, msg_id: str) -> Outcome:
    """Publish a message that is too large for a batch, whose limit is below max_payload."""
    try:
        return await publish(
            transport,
            message.subject,
            message.payload,
            headers=message.headers,
            msg_id=msg_id,
            last_seq=None,
            ttl="",
        )
    except (Problem, OutcomeUnknown) as outcome:
        return outcome


def _line(message: Outgoing, msg_id: str) -> bytes:
    line: dict[str, Any] = {"subject": message.subject, "msg_id": msg_id}
    content, media_type = encoded(message.payload)
    headers = dict(message.headers)
    if media_type:
        headers.setdefault("Content-Type", media_type)
    line["data_base64"] = b64encode(content).decode()
    if headers:
        line["headers"] = headers
    return json.dumps(line).encode()


async def _settled(
    transport: Transport, lines: Sequence[bytes], ids: Sequence[str]
) -> list[Outcome]:
    """Send a batch, and send messages without an outcome again; return the outcomes."""
    outcomes: list[Outcome] = [OutcomeUnknown(msg_id) for msg_id in ids]
    left = list(range(len(lines)))
    backoff = Backoff(transport.retry)
    until = transport.retry.deadline()
    while left:
        content = b"[" + b",".join(lines[i] for i in left) + b"]"
        headers = {"Content-Type": JSON}
        try:
            answer = await transport.repeat(
                "POST",
                path_of("publish"),
                what=ids[left[0]],
                until=until,
                content=content,
                headers=headers,
            )
        except OutcomeUnknown:
            break
        except Problem as refused:
            for i in left:
                outcomes[i] = refused
            break
        again: list[int] = []
        for i, fields in zip(left, answer.json(), strict=True):
            outcome = _receipt(fields) if "stream" in fields else problem_from(fields["error"])
            if isinstance(outcome, Problem) and is_passing(outcome):
                again.append(i)
            else:
                outcomes[i] = outcome
        left = again
        if left and not await backoff.wait(until=until):
            break
    return outcomes


async def request(
    transport: Transport,
    subject: str,
    payload: Payload,
    *,
    headers: Mapping[str, str],
    within: float,
) -> Message:
    """Send a request to a service once, and return the answer.

    Raises Problem if the server refuses or no service answers for `within` seconds, ConnectionLost
    if the server does not answer.
    """
    content, media_type = encoded(payload)
    sent = {f"Nats-H-{name}": value for name, value in headers.items()}
    if media_type:
        sent["Content-Type"] = media_type
    await transport.refuse_large(len(content))
    answer = await transport.send(
        "POST",
        path_of("subjects", subject, verb="request"),
        params={"timeout": f"{int(within * 1000)}ms"},
        content=content,
        headers={"Accept": "*/*", **sent},
        timeout=within + 5,
    )
    found: dict[str, list[str]] = {}
    for name, value in answer.headers.multi_items():
        if name.startswith("nats-"):
            shown = name.removeprefix("nats-h-").title()
            found.setdefault(shown, []).append(value)
    return Message("", subject, 0, "", found, answer.content)


async def read(transport: Transport, path: str, **query: str) -> Message:
    """Read one stored message.

    Raises Problem if there is none, ConnectionLost without an answer.
    """
    answer = await transport.send("GET", path, params=query)
    return Message.read(answer.text)
