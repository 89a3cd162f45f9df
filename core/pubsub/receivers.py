"""The receivers of messages: subscriptions of clients, of services and of other servers.

The receivers of a subject are found once and cached until a subscription that could change them
begins or ends; `stale` then becomes True. `targets`, `groups` and `services` never change. One
`Receivers` object may serve many subjects (all reply subjects of one inbox), so it does not know
its subject unless `heads` is set.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from core.auth.grant import Guard
from core.protocol.messages import Message, MessageColumns


class Session(Protocol):
    """The part of a client session that publishing and delivery use.

    Attributes:
        out: Output that is written at the end of the loop tick. Code that appends to the empty list
            also appends the session to `loop_tick.dirty`. The list object stays the same for the
            life of the session.
        blocked: True while the socket accepts no more output.
        closed: True once the connection is closed.
        headers: True if the client supports headers.
        echo: True if the client wants the messages that it publishes itself.
        client_id: Number of the connection.
        user: Name of the user.
        guard: Permissions of the user (None: everything is allowed).
        on_writable: Functions that are each called once, when a blocked session accepts output or
            is closed.
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
        """Remove a subscription of the client that has had its last delivery."""
        ...


ServiceCall = Callable[["Session | None", bytes, bytes, bytes, bytes], None]
"""Called with session (None: the server itself published), subject, reply, headers, payload."""

BatchCall = Callable[[MessageColumns], None]
"""Called with messages in columns, which may be from any session."""


class Trace(Protocol):
    """The trace of one message, as `core.pubsub.message_trace` implements it.

    Attributes:
        only: True if the message is neither delivered to clients nor stored.
    """

    only: bool

    def streamed(self, stream: str) -> dict[str, Any]:
        """Add the event of a stream.

        Return the event, to which the stream adds its outcome later.
        """
        ...

    def hold(self) -> None:
        """Record that one more step is in progress: the report waits for one more `release`."""
        ...

    def release(self) -> None:
        """Record that a step is done; publish the report if no step is in progress."""
        ...


TracedCall = Callable[[Trace, bytes, bytes, bytes, bytes], None]
"""Called with the trace of a message, its subject, reply, headers and payload."""


class AckHandler(Protocol):
    """Handles the acknowledgements of one consumer."""

    def handle(
        self,
        parts: list[bytes],
        session: Session | None,
        reply: bytes,
        headers: bytes,
        payload: bytes,
    ) -> None:
        """Handle one acknowledgement; `parts` is its subject in six parts (`rsplit(b".", 5)`)."""
        ...

    def handle_row(
        self, parted: list[list[bytes]], session: Session | None, payloads: list[bytes]
    ) -> None:
        """Handle several acknowledgements without reply and headers, in order.

        `parted` has their subjects, each in six parts (`rsplit(b".", 5)`).
        """
        ...


MEMBERS_GROUP = b"_jetgate"
"""Queue group of services that one node provides for all nodes of a database.

Nodes announce these subscriptions only to cluster members that are not nodes.
"""

MESSAGE = 1 << 60
"""Amount that one message adds to `Subscription.sent`: the count is in the upper bits, bytes
below.
"""
_NBYTES = MESSAGE - 1


def messages_of(sent: int) -> int:
    """Return the number of messages in a value of `Subscription.sent`."""
    return sent >> 60


def bytes_of(sent: int) -> int:
    """Return the bytes of headers and payloads in a value of `Subscription.sent`."""
    return sent & _NBYTES


class Subscription:
    """A client's subscription: the target of deliveries.

    Attributes:
        mid: The bytes between subject and size in a MSG line, which is `b"MSG " + subject + mid +
            size`.
        sent: Messages and bytes delivered, in one number. Code that writes MSG lines adds `MESSAGE`
            and the size of headers and payload for each message; one addition per message is
            cheaper than two.
        limit: Number of deliveries after which the subscription ends, counted from its beginning
            (UNSUB with a limit); 0: none.
        guard: The permissions to check per delivery; None: no check.
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
        """Number of messages delivered to the subscription so far."""
        return messages_of(self.sent)


Target = Subscription


class ServiceSubscription:
    """A subscription of a function of this process.

    Attributes:
        local_only: It receives only messages that are published on this server; other servers of a
            cluster do not know of it.
        not_forwarded: Messages for it are not forwarded to other servers.
        batch: Called with several messages at once; None: `call` is called for each.
        traced: Called with a message that is traced; None: the service adds no events.
        withdrawn: True if other servers were sent its end (`Account.withdraw`).
        takes_authors: It gets messages of batches with the connection that published them
            (`core.pubsub.authored`).
    """

    __slots__ = (
        "batch",
        "call",
        "local_only",
        "not_forwarded",
        "queue",
        "subject",
        "takes_authors",
        "traced",
        "withdrawn",
    )

    def __init__(
        self,
        subject: bytes,
        call: ServiceCall,
        queue: bytes,
        local_only: bool = False,
        not_forwarded: bool = False,
    ) -> None:
        self.batch: BatchCall | None = None
        self.traced: TracedCall | None = None
        self.subject = subject
        self.call = call
        self.queue = queue
        self.local_only = local_only
        self.not_forwarded = not_forwarded
        self.withdrawn = False
        self.takes_authors = False


Member = Subscription | ServiceSubscription


class Output(Protocol):
    """The output of a session or a link to another server, for senders that can wait.

    Each function in `on_writable` is called once, when the `blocked` output accepts more or is
    closed.
    """

    closed: bool
    on_writable: list[Callable[[], None]]

    @property
    def blocked(self) -> bool: ...


class ServerLink(Output, Protocol):
    """The part of a connection to another server of the cluster that senders use.

    `sent` is the sum of the numbers passed to `send`. The functions in `on_writable` are called a
    few at a time: all waiting senders at once would fill the link again.
    """

    sent: int

    def send(self, lines: bytes, sent: int) -> None:
        """Add message lines to the output.

        `sent` is the sum of `MESSAGE` and the size of each message.
        """
        ...


class RemoteInterest:
    """A subscription of another server of the cluster.

    Attributes:
        link: The connection to that server.
        subject: The subject filter.
        queue: Queue group; empty: none.
        weight: Number of members that the queue group has on that server.
        is_of_node: True if that server has proved to be a node of the same database.
    """

    __slots__ = ("is_of_node", "link", "queue", "subject", "weight")

    def __init__(
        self, link: ServerLink, subject: bytes, queue: bytes, weight: int, is_of_node: bool = False
    ) -> None:
        self.link = link
        self.subject = subject
        self.queue = queue
        self.weight = weight
        self.is_of_node = is_of_node


class RemoteForwarder(ServiceSubscription):
    """The service that forwards the messages of a subject to other servers.

    `core.pubsub.forwarding` implements it.

    Attributes:
        sole: The link to the only receiver, if that is one other server and every message is sent
            to it; else None.
        head: The beginning of message lines for `sole`.
        subjects: The subject filters of receivers in no queue group.
        grouped: Queue group and subject filter of the other receivers.
    """

    __slots__ = ("grouped", "head", "sole", "subjects")

    sole: ServerLink | None
    head: bytes
    subjects: frozenset[bytes]
    grouped: frozenset[tuple[bytes, bytes]]

    def forward(self, message: Message, to: bytes, refused: Sequence[bytes]) -> None:
        """Send a message to the servers that have receivers.

        Args:
            message: Subject, reply, headers and payload.
            to: The subject that selects the receivers; empty: the message's own. The receiving
                server learns the message's own subject only if the reply is an ack subject, where
                it follows an `@`.
            refused: Queue groups whose members on this server may not have the message: a member on
                another server gets it.
        """
        raise NotImplementedError

    def blocked(self) -> ServerLink | None:
        """Return a link that messages may use and whose output is full.

        None if all accept output.
        """
        raise NotImplementedError


Head = tuple[Subscription, Session, list[bytes], bytes]
"""A subscription, its session, the session's output, and the beginning of its MSG line."""


class Receivers:
    """The receivers of messages on a subject.

    Attributes:
        targets: Subscriptions of clients in no queue group.
        groups: The members of each queue group.
        services: Subscriptions inside the process in no queue group.
        plain: True if every target supports headers, none has a limit of deliveries, and none has
            a permission to publish to the reply subjects of messages it gets (`allow_responses`).
        sole: The only receiver, if that is one client subscription and `plain` is True; else None.
        head: The beginning of the MSG line of `sole`; empty if the subject is not known.
        heads: Output and beginning of the MSG line of each target; None if the subject is not
            known.
        only: The function of the only receiver, if that is one service; else None.
        batch: The function of that service for many messages at once; None if it has none.
        interest: True if there is any receiver.
        forwarder: The service that forwards messages to other servers; None if they have no
            receivers.
        stale: True once the cache has dropped this entry.
    """

    __slots__ = (
        "batch",
        "forwarder",
        "groups",
        "head",
        "heads",
        "interest",
        "only",
        "plain",
        "services",
        "sole",
        "stale",
        "targets",
    )

    def __init__(
        self, members: list[Member], subject: bytes | None, forwarder: RemoteForwarder | None = None
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
        self.forwarder = forwarder
        self.stale = False


def heads_of(targets: tuple[Subscription, ...], subject: bytes) -> tuple[Head, ...]:
    """Return for each target: target, session, output, and beginning of its MSG line.

    `subject` is the subject in that line.
    """
    return tuple((t, t.session, t.session.out, b"MSG " + subject + t.mid) for t in targets)


def _is_free(target: Subscription) -> bool:
    return target.guard is None or not target.guard.tracks_replies
