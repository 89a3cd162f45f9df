"""Message tracing (ADR-41): a header of a message requests a report of its path.

    Nats-Trace-Dest: <subject>    where the report is published
    Nats-Trace-Only: true         evaluate the path, but deliver to no client and store nothing

The report is one JSON document with an event for each step: ingress (`in`), subject mapping (`sm`),
a service of the system (`si`), a stream (`js`), and each client that got the message or did not
(`eg`).
"""

import gzip
from typing import Any

import msgspec

from core.goinput import text_of
from core.model.gotime import format_time
from core.protocol import headers as header_blocks
from core.pubsub.account import Account
from core.pubsub.receivers import Subscription
from core.pubsub.user_info import server_json
from core.subjects.subject import is_valid_literal

DESTINATION = b"Nats-Trace-Dest"
DISABLED = b"trace disabled"
"""Value of `Nats-Trace-Dest` in a stored message, so that the message is not traced again."""
_ONLY = b"Nats-Trace-Only"
_YES = frozenset((b"1", b"true", b"on"))
_ENCODING = b"Accept-Encoding"
_HTML = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))


class MessageTrace:
    """The trace of one message: collects events and publishes the report when all steps are done.

    Life cycle: `hold` for each step that is in progress, `release` when it is done; the last
    `release` publishes the report.

    Attributes:
        only: True if the message is neither delivered to clients nor stored.
    """

    def __init__(self, account: Account, destination: bytes, headers: bytes, size: int) -> None:
        pairs = header_blocks.parse(headers)
        self.only = _first(pairs, _ONLY).lower() in _YES
        self._account = account
        self._destination = destination
        self._request = {"header": _grouped(pairs), "msgsize": size + len(headers)}
        self._is_compressed = b"gzip" in _first(pairs, _ENCODING).lower()
        self._events: list[dict[str, Any]] = []
        self._waiting = 0

    # -- events

    def came_in(self, client_id: int, name: str, subject: bytes) -> None:
        """Add the ingress event, with the publishing client's number and name."""
        shown = {"name": name} if name else {}
        account = self._account.name
        self._note("in", kind=0, cid=client_id, **shown, acc=account, subj=text_of(subject))

    def refused(self, why: str) -> None:
        """Add to the ingress event the reason why the publish was refused."""
        self._events[0]["error"] = why

    def mapped(self, subject: bytes) -> None:
        """Add the event of a subject mapping; `subject` is the new subject."""
        self._note("sm", to=text_of(subject))

    def imported(self, subject: bytes, to: bytes) -> None:
        """Add the event that a service of the system account gets the message.

        `subject` is the subject that the client published to, `to` the one that the service sees.
        """
        self._note("si", acc="$SYS", **{"from": text_of(subject), "to": text_of(to)})

    def reached(self, target: Subscription, name: str, error: str) -> None:
        """Add the egress event of a client.

        `error`: the reason why it did not get the message, or empty.
        """
        event: dict[str, Any] = {"kind": 0, "cid": target.session.client_id}
        if name:
            event["name"] = name
        event["sub"] = text_of(target.subject)
        if target.queue:
            event["queue"] = text_of(target.queue)
        if error:
            event["error"] = error
        self._note("eg", **event)

    def streamed(self, stream: str) -> dict[str, Any]:
        """Add the event of a stream.

        Return the event, to which the stream adds its outcome later.
        """
        return self._note("js", stream=stream)

    def _note(self, what: str, /, **more: Any) -> dict[str, Any]:
        event = {"type": what, "ts": format_time(self._account.hub.clock.now()), **more}
        self._events.append(event)
        return event

    # -- sending

    def hold(self) -> None:
        """Record that one more step is in progress: the report waits for one more `release`."""
        self._waiting += 1

    def release(self) -> None:
        """Record that a step is done; publish the report if no step is in progress.

        Nothing is published if the destination is not a valid subject.
        """
        self._waiting -= 1
        if self._waiting or not is_valid_literal(self._destination):
            return
        hub = self._account.hub
        hub.reports += 1
        report = {
            "server": server_json(hub, hub.reports),
            "request": self._request,
            "events": self._events,
        }
        body = msgspec.json.encode(report)
        for char, escape in _HTML:
            body = body.replace(char, escape)
        headers = b""
        if self._is_compressed:
            headers, body = b"NATS/1.0\r\nContent-Encoding: gzip\r\n\r\n", gzip.compress(body)
        self._account.publish(self._destination, b"", headers, body)


def _first(pairs: list[tuple[bytes, bytes]], name: bytes) -> bytes:
    return next((value for each, value in pairs if each == name), b"")


def _grouped(pairs: list[tuple[bytes, bytes]]) -> dict[str, list[str]]:
    """Return the header values by name, without empty ones."""
    found: dict[str, list[str]] = {}
    for name, value in sorted(pairs, key=lambda pair: pair[0]):
        if value:
            found.setdefault(text_of(name), []).append(text_of(value))
    return found
