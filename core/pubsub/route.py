"""Who gets a message: subscriptions of clients, subscriptions inside the process, and routes.

A `Route` is what a subject resolves to, computed once and kept until a subscription that could
change it comes or goes; `stale` then becomes True. Its `targets`, `groups` and `services` never
change. A route may serve many subjects (all the reply subjects of one inbox), so it does not
know its subject unless `heads` is set.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from core.auth.grant import Guard
from core.protocol.messages import Message, MessageColumns


class Session(Protocol):
    """What publishing and delivering use of the server's side of one connection.

    `out` is the gathered output; whoever appends to it while it is empty appends the session to
    `turn.dirty`. The list stays the same object for the life of the session. `blocked` says that
    the socket takes no more for now, `closed` that it is gone; `user` and `guard` say who it is
    and what it may do (None: everything); calls put into `on_writable` are made once, when a
    blocked session takes more or is closed.
    """

    out: list[bytes]
    blocked: bool
    closed: bool
    headers: bool
    echo: bool
    client_id: int
    user: str
    guard: Guard | None
    on_writable: list[Callable[[], None]]

    def flush(self) -> None: ...

    def forget(self, subscription: "Subscription") -> None:
        """Drop a subscription that has had its last delivery."""
        ...


ServiceCall = Callable[["Session | None", bytes, bytes, bytes, bytes], None]
"""Called with session (None: the server itself published), subject, reply, headers, payload."""

BatchCall = Callable[[MessageColumns], None]
"""Takes messages in columns; they may come from any session."""


class Trace(Protocol):
    """The way of one message, noted as it goes: `core.pubsub.message_trace`.

    `only` says that the message reaches nobody and is stored nowhere.
    """

    only: bool

    def streamed(self, stream: str) -> dict[str, Any]:
        """Note a stream; what becomes of the message there is added to the returned event."""
        ...

    def hold(self) -> None:
        """Wait for one more `release` before the notes are sent."""
        ...

    def release(self) -> None:
        """Send the notes, if nothing else is waited for."""
        ...


TracedCall = Callable[[Trace, bytes, bytes, bytes, bytes], None]
"""Called with a trace that asks what becomes of a message, subject, reply, headers, payload."""


class AckTaker(Protocol):
    """Takes the acknowledgements of one consumer."""

    def take(
        self,
        parts: list[bytes],
        session: Session | None,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> None:
        """Take one; `parts`: its subject in six parts (`rsplit(b".", 5)`)."""
        ...

    def take_row(
        self, parted: list[list[bytes]], session: Session | None, payloads: list[bytes]
    ) -> None:
        """Take some without reply and headers, in order; `parted`: the subjects, in six parts."""
        ...


STRANGERS = b"_jetgate"
"""The queue group of what one of the nodes of a database answers for all. Nodes do not tell each
other of it, but only servers that are none."""

MESSAGE = 1 << 60
"""What a message adds to `Subscription.sent`, beside its size."""
_NBYTES = MESSAGE - 1


def messages_of(sent: int) -> int:
    """Return how many messages a sum of `Subscription.sent` stands for."""
    return sent >> 60


def bytes_of(sent: int) -> int:
    """Return how many bytes of headers and payloads a sum of `Subscription.sent` stands for."""
    return sent & _NBYTES


class Subscription:
    """A client's subscription: the target of deliveries.

    `mid` is what stands between subject and size in a MSG line: a line is
    `b"MSG " + subject + mid + size`. Who writes such lines itself adds to `sent`, for each message,
    MESSAGE and the size of its headers and payload: one number for both counts, as one addition
    is what a message had to pay anyway. An UNSUB with a limit counts from the beginning. `limit` 0
    means none. `guard` is there when permissions have a say in its deliveries.
    """

    __slots__ = ("guard", "limit", "mid", "queue", "sent", "session", "sid", "subject")

    def __init__(self, session: Session, subject: bytes, queue: bytes, sid: bytes) -> None:
        self.session = session
        self.subject = subject
        self.queue = queue
        self.sid = sid
        self.mid = b" " + sid + b" "
        self.sent = 0
        self.limit = 0
        self.guard: Guard | None = None

    @property
    def delivered(self) -> int:
        """How many messages it has got."""
        return messages_of(self.sent)


Target = Subscription


class ServiceSubscription:
    """A subscription inside the process.

    With `here` it is for what is published on this server alone: the others of a cluster are not
    told of it. `batch` takes several messages as `call` takes each; None: it has to be called for
    each. `traced` takes a message whose way is traced; None: there is nothing to tell. `untold`:
    other servers were told of it, and then that it has ended (`Account.untell`). `takes_authors`:
    it gets messages of batches with the connection that they are from (`core.pubsub.authored`).
    """

    __slots__ = (
        "batch",
        "call",
        "here",
        "instead",
        "queue",
        "subject",
        "takes_authors",
        "traced",
        "untold",
    )

    def __init__(
        self,
        subject: bytes,
        call: ServiceCall,
        queue: bytes,
        here: bool = False,
        instead: bool = False,
    ) -> None:
        self.batch: BatchCall | None = None
        self.traced: TracedCall | None = None
        self.subject = subject
        self.call = call
        self.queue = queue
        self.here = here
        self.instead = instead
        self.untold = False
        self.takes_authors = False


Member = Subscription | ServiceSubscription


class Output(Protocol):
    """What is written to a session or a link, for those who can wait until it takes more.

    While it is `blocked`, calls put into `on_writable` are made once, when it takes more or is
    closed.
    """

    closed: bool
    on_writable: list[Callable[[], None]]

    @property
    def blocked(self) -> bool: ...


class Link(Output, Protocol):
    """What sending to another server of the cluster uses of the connection to it.

    `sent` is the sum of what was given to `send`. The calls in `on_writable` are made some at a
    time: many who waited would bring too much again.
    """

    sent: int

    def send(self, lines: bytes, sent: int) -> None:
        """Add messages to the output; `sent`: MESSAGE and the size of each, summed up."""
        ...


class RemoteInterest:
    """What clients of another server subscribe to; `weight`: how many of them in a queue group.

    `is_of_node`: the server has proved that it is a node of the same database.
    """

    __slots__ = ("is_of_node", "link", "queue", "subject", "weight")

    def __init__(
        self, link: Link, subject: bytes, queue: bytes, weight: int, is_of_node: bool = False
    ) -> None:
        self.link = link
        self.subject = subject
        self.queue = queue
        self.weight = weight
        self.is_of_node = is_of_node


class Onward(ServiceSubscription):
    """The receivers of a route on other servers (`core.pubsub.onward`).

    Attributes:
        sole: The link to the only receiver, when that is one other server which gets every message.
        head: The beginning of a line that sends a message.
        subjects: The filters of receivers in no queue group.
        grouped: Queue group and filter of the other receivers.
    """

    __slots__ = ("grouped", "head", "sole", "subjects")

    sole: Link | None
    head: bytes
    subjects: frozenset[bytes]
    grouped: frozenset[tuple[bytes, bytes]]

    def forward(self, message: Message, to: bytes, refused: Sequence[bytes]) -> None:
        """Send a message to the servers that have receivers.

        Args:
            message: Subject, reply, headers, payload.
            to: The subject to send it to; empty: its own. The subject that subscribers are to see
                follows an `@` in a reply subject of JetStream then.
            refused: Queue groups whose members here may not have it: a member elsewhere gets it.
        """
        raise NotImplementedError

    def blocked(self) -> Link | None:
        """Return a link that takes no more for now, if a message may go over one."""
        raise NotImplementedError


Head = tuple[Subscription, Session, list[bytes], bytes]
"""A target, its session, the session's output, and the beginning of its MSG line."""


class Route:
    """The resolved receivers of a subject.

    `sole` is the only receiver when that is one plain client subscription without a limit and
    with header support, `head` then the beginning of its MSG line if that is known; `only` is
    the only receiver when that is one service, `batch` what takes many messages at once for it.
    `plain` says that no target has a limit, lacks header support, or remembers reply subjects.
    `interest` says that somebody would get a message.
    `onward` is the service that takes messages to other servers of the cluster; None: nobody
    listens there.
    """

    __slots__ = (
        "batch",
        "groups",
        "head",
        "heads",
        "interest",
        "only",
        "onward",
        "plain",
        "services",
        "sole",
        "stale",
        "targets",
    )

    def __init__(
        self, members: list[Member], subject: bytes | None, onward: Onward | None = None
    ) -> None:
        targets: list[Subscription] = []
        services: list[ServiceSubscription] = []
        groups: dict[bytes, list[Member]] = {}
        for member in members:
            if member.queue:
                groups.setdefault(member.queue, []).append(member)
            elif isinstance(member, Subscription):
                targets.append(member)
            else:
                services.append(member)
        self.targets = tuple(targets)
        self.groups = tuple(tuple(group) for group in groups.values())
        self.services = tuple(services)
        self.heads = None if subject is None else heads_of(self.targets, subject)
        self.plain = all(not t.limit and t.session.headers and _is_free(t) for t in targets)
        alone = len(members) == 1
        self.sole = targets[0] if alone and targets and self.plain else None
        self.head = self.heads[0][3] if self.sole and self.heads else b""
        self.only = services[0].call if alone and services else None
        self.interest = bool(targets or groups or services)
        self.batch = services[0].batch if self.only is not None else None
        self.onward = onward
        self.stale = False


def heads_of(targets: tuple[Subscription, ...], subject: bytes) -> tuple[Head, ...]:
    """Return the beginnings of the MSG lines that the targets get."""
    return tuple((t, t.session, t.session.out, b"MSG " + subject + t.mid) for t in targets)


def _is_free(target: Subscription) -> bool:
    return target.guard is None or not target.guard.tracks_replies
