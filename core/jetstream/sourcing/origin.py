"""One origin of a mirror or source: the requests for its consumer, and the form of its copies."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from msgspec.structs import replace

from core.goinput import parse_uint
from core.model import codec
from core.model.consumer import AckPolicy, ConsumerConfig, CreateConsumerRequest, DeliverPolicy
from core.model.names import short_hash
from core.model.stream import StreamConfig, StreamSource
from core.model.transform import Transform
from core.runtime.nuid import nuid
from core.units import NANOS_PER_SECOND

_HEARTBEAT = NANOS_PER_SECOND
_INACTIVE = 10 * NANOS_PER_SECOND
_ACK_WAIT = 22 * 3600 * NANOS_PER_SECOND
_API = "$JS.API"
# Separates the filters, and the destinations, of a source with several transforms.
_BETWEEN = "\f"
_SOURCE = b"Nats-Stream-Source: "
# Headers that applied to the publish into the origin only.
_PUBLISH_HEADERS = (b"Nats-Expected-", b"Nats-Batch-")
_KEY_MAX = 2048
_DROPPED = (b"Nats-Stream-Source:", *_PUBLISH_HEADERS)


@dataclass(frozen=True, slots=True)
class StartPosition:
    """The position in an origin after which copying continues.

    Attributes:
        after: The last sequence already copied; 0: none, start as the configuration defines.
        identity: Id of the origin (`Nats-Stream-Identity`), which differs after the stream was
            deleted and created again; empty: unknown.
    """

    after: int = 0
    identity: str = ""


def source_text(source: StreamSource) -> str:
    """Return the text "name filters destinations" that identifies a source.

    It is the part of the header `Nats-Stream-Source` that does not depend on the message.
    """
    name = source.name
    if source.external is not None:
        name += ":" + short_hash(source.external.api).decode()
    if source.consumer is not None:
        name += ":C=" + short_hash(source.consumer.name).decode()
    if source.subject_transforms:
        filters = _BETWEEN.join(t.src or ">" for t in source.subject_transforms)
        targets = _BETWEEN.join(t.dest or ">" for t in source.subject_transforms)
    else:
        filters, targets = source.filter_subject or ">", ">"
    return f"{name} {filters} {targets}"


def position_key(words: str) -> str:
    """Return the key under which storage keeps the position in a source.

    It is the text of the source (`source_text`), or a digest of a text above 2,048 bytes: a key in
    storage has at most 2,704 bytes, without NUL.
    """
    encoded = words.encode()
    if len(encoded) <= _KEY_MAX and b"\0" not in encoded:
        return words
    return f"{words.partition(' ')[0]} {sha256(encoded).hexdigest()}"


def _fields(words: str) -> tuple[str, str, str]:
    """Split the text of a source into name, filters and destinations, as headers contain them.

    nats-server 2.15.1 cuts a destination at its first blank, as in `{{partition(3, 1)}}`.
    """
    name, filters, targets, *_ = words.split(" ")
    return name, filters, targets


def origins_of(config: StreamConfig, account: str, domain: str) -> list[Origin]:
    """Return the origins of a stream: one for a mirror, or one for each source."""
    names = config.name, account, domain
    if config.mirror is not None:
        return [Origin(config.mirror, *names, mirrors=True)]
    return [Origin(source, *names, mirrors=False) for source in config.sources if source]


class Origin:
    """One origin of one stream: a stream whose messages are copied.

    Args:
        source: The configuration of the mirror or source.
        stream: The name of the stream into which messages are copied.
        account: The name of its account.
        domain: The JetStream domain of this server (empty: none).
        mirrors: Whether that stream is a mirror.
    """

    def __init__(
        self, source: StreamSource, stream: str, account: str, domain: str, *, mirrors: bool
    ) -> None:
        self.source = source
        self.mirrors = mirrors
        words = source_text(source)
        self.key = position_key(words)
        self._kind = "mirror" if mirrors else "src"
        self._metadata = {f"_nats.{self._kind}.stream": stream, f"_nats.{self._kind}.acc": account}
        if domain:
            self._metadata[f"_nats.{self._kind}.domain"] = domain
        prefix = "JS_MIRROR_" if mirrors else "JS_SRC_"
        self.consumer = prefix + short_hash(f"{account}.{stream}.{words}").decode()
        self._transforms = [
            Transform(t.src, t.dest, random.random) for t in source.subject_transforms
        ]
        self._fields = _fields(words)
        fields = (part.encode().replace(b"%", b"%%") for part in self._fields)
        self._line = b"%b%b %%d %b %b %%b%%b\r\n\r\n" % (_SOURCE, *fields)

    def is_same(self, other: Origin) -> bool:
        """Return whether both origins have the same configuration."""
        return self.source == other.source and self.mirrors == other.mirrors

    def start_in(self, header: bytes) -> StartPosition | None:
        """Return the position that a `Nats-Stream-Source` header contains.

        None if the header is of another origin or malformed.
        """
        name, number, *fields = (*header.decode("utf-8", "replace").split(" "), "")
        seq = parse_uint(number.encode())
        if seq is None or (name, *fields[:2]) != self._fields:
            return None
        return StartPosition(seq, fields[3] if len(fields) > 3 else "")

    # -- requests ----------------------------------------------------------------------------

    @property
    def reference(self) -> str:
        """Name of the durable consumer in the configuration; empty: a consumer is created."""
        return self.source.consumer.name if self.source.consumer is not None else ""

    def deliver_subject(self) -> str:
        """Return the deliver subject for the origin's consumer.

        It is that of the configured durable consumer, or else a new one for each call.
        """
        if self.source.consumer is not None:
            return self.source.consumer.deliver_subject
        letter, external = "M" if self.mirrors else "S", self.source.external
        prefix = external.deliver if external is not None and external.deliver else "$JS"
        return f"{prefix}.{letter}.{nuid(8)}".replace("..", ".")

    def subject(self, verb: str) -> bytes:
        """Return the API subject of a consumer request to the origin.

        `verb` is the part after `CONSUMER.`, such as `CREATE.<stream>`.
        """
        external = self.source.external
        prefix = external.api if external is not None and external.api else _API
        return f"{prefix}.CONSUMER.{verb}".replace("..", ".").encode()

    def create(self, start: StartPosition, deliver: str, *, plain: bool) -> tuple[bytes, bytes]:
        """Return (subject, body) of the request that creates a consumer on the origin.

        Args:
            start: The position after which to start.
            deliver: The deliver subject.
            plain: Leave out the member `sourcing`, for servers that do not support it.
        """
        name = f"{self.consumer}_{nuid(8)}" if plain else self.consumer
        config = ConsumerConfig(
            name=name,
            deliver_subject=deliver,
            ack_policy=AckPolicy.NONE,
            ack_wait=_ACK_WAIT,
            max_deliver=1,
            idle_heartbeat=_HEARTBEAT,
            flow_control=True,
            direct=True,
            sourcing=not plain,
            inactive_threshold=_INACTIVE,
            metadata=self._metadata,
        )
        config = replace(config, **self._filters(), **self._start(start))
        tail = f".{name}.{config.filter_subject}" if config.filter_subject else ""
        request = CreateConsumerRequest(stream_name=self.source.name, config=config)
        return self.subject(f"CREATE.{self.source.name}{tail}"), codec.encode(request)

    def _filters(self) -> dict[str, object]:
        filters = tuple(t.src or ">" for t in self.source.subject_transforms)
        if len(filters) > 1:
            return {"filter_subjects": filters}
        return {"filter_subject": filters[0] if filters else self.source.filter_subject}

    def _start(self, start: StartPosition) -> dict[str, object]:
        source, seq = self.source, start.after + 1 if start.after else 0
        if not seq and source.opt_start_time is not None and not source.opt_start_seq:
            policy = DeliverPolicy.BY_START_TIME
            return {"deliver_policy": policy, "opt_start_time": source.opt_start_time}
        seq = seq or source.opt_start_seq
        if seq:
            return {"deliver_policy": DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": seq}
        return {"deliver_policy": DeliverPolicy.ALL}

    def headers(self, start: StartPosition) -> bytes:
        """Return the header block of a consumer request: required API level and known identity.

        The identity makes the origin refuse the request if it was deleted and created again.
        Requests of a mirror have no identity.
        """
        if self.mirrors:
            return b"NATS/1.0\r\nNats-Required-Api-Level: 4\r\n\r\n"
        return (
            b"NATS/1.0\r\nNats-Required-Api-Level: 5\r\nNats-Stream-Identity: %b\r\n\r\n"
            % start.identity.encode()
        )

    # -- messages ----------------------------------------------------------------------------

    def renamed(self, subjects: list[bytes]) -> list[bytes]:
        """Return the subjects under which copies are stored, by the source's transforms."""
        if not self._transforms:
            return subjects
        if any(transform.varies for transform in self._transforms):
            return [self._rename(subject) for subject in subjects]
        names = {subject: self._rename(subject) for subject in set(subjects)}
        return [names[subject] for subject in subjects]

    def _rename(self, subject: bytes) -> bytes:
        for transform in self._transforms:
            renamed = transform.apply(subject)
            if renamed is not None:
                return renamed
        return subject

    def stored_headers(
        self, headers: list[bytes], seqs: Sequence[int], subjects: list[bytes], identity: str
    ) -> list[bytes]:
        """Return the header blocks of copies: the messages' own with `Nats-Stream-Source` added."""
        last = b" " + identity.encode() if identity else b""
        line = self._line
        return [
            (block[:-2] if block else b"NATS/1.0\r\n") + line % (seq, subject, last)
            for block, seq, subject in zip(headers, seqs, subjects, strict=True)
        ]


def without_publish_headers(headers: list[bytes], *, mirrors: bool) -> list[bytes]:
    """Return header blocks without `Nats-Expected-*` and `Nats-Batch-*`.

    For sources (`mirrors` False) also without `Nats-Stream-Source` of an earlier copy.
    """
    dropped = _PUBLISH_HEADERS if mirrors else _DROPPED
    return [
        _without(block, dropped)
        if any(block.find(b"\r\n" + name) >= 0 for name in dropped)
        else block
        for block in headers
    ]


def _without(block: bytes, dropped: tuple[bytes, ...]) -> bytes:
    first, *lines = block.split(b"\r\n")
    kept = [line for line in lines if line and not line.startswith(dropped)]
    return b"\r\n".join([first, *kept, b"", b""]) if kept else b""
