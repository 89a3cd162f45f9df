"""The check of a user's permissions to publish and to subscribe.

A `Grant` is made from a user's permissions and shared by all connections of that user. It caches
the subjects to which the user may publish. A `Guard` belongs to one connection. It adds temporary
permissions: to answer on the reply subjects of delivered messages (`allow_responses`).

The filter of a permission is compared with the filter of a subscription token by token, with the
wildcards of the subscription taken literally. So `foo.*` allows a subscription to `foo.>` too, as
in nats-server.
"""

from collections.abc import Callable

from core.auth.users import Permissions, Responses
from core.subjects.subject import compile_filters, has_wildcard, is_subset, matches, overlap
from core.units import NANOS_PER_SECOND

_PUBLISHABLE_MAX = 16384
_REPLIES_MAX = 4096

Pattern = tuple[bytes, bytes]
"""A subject filter, and the queue name or filter of queue names to which it applies (b"": none)."""


class Grant:
    """The permissions of one user.

    `publishable` caches subjects that `may_publish` has allowed; callers check this set first.
    """

    def __init__(self, permissions: Permissions) -> None:
        self.permissions = permissions
        self.publishable: set[bytes] = set()
        publish = permissions.publish
        self.limits_publish = publish.allow is not None or bool(publish.deny)
        self._allowed = _matcher(publish.allow) if publish.allow is not None else _everything
        self._denied = _matcher(publish.deny)
        self._subscribe_allow = _patterns(permissions.subscribe.allow)
        self._subscribe_deny = _patterns(permissions.subscribe.deny) or []

    def may_publish(self, subject: bytes) -> bool:
        """Return whether a message may be published to `subject`, by permission for the subject.

        Answers that only `allow_responses` permits are checked by `Guard.may_publish`.
        """
        if not self._allowed(subject) or self._denied(subject):
            return False
        if len(self.publishable) >= _PUBLISHABLE_MAX:
            self.publishable.clear()
        self.publishable.add(subject)
        return True

    def may_publish_all(self, subject: bytes) -> bool:
        """Return whether messages may be published to all subjects that a filter matches."""
        publish = self.permissions.publish
        if publish.allow is not None and not any(
            is_subset(subject, pattern.encode()) for pattern in publish.allow
        ):
            return False
        return not any(overlap(pattern.encode(), subject) for pattern in publish.deny)

    def may_subscribe(self, subject: bytes, queue: bytes) -> bool:
        """Return whether a subscription to the filter `subject` is permitted.

        `queue` is the queue of the subscription (b"": none).
        """
        if self._subscribe_allow is not None:
            plain, queues = _matching(self._subscribe_allow, subject)
            allowed = _queue_matches(queue, queues) if queue and queues else plain
            if not allowed:
                return False
        return not self.denies(subject, queue)

    def may_read(self, subject: bytes) -> bool:
        """Return whether the stored messages on every subject that a filter matches may be read.

        The check of subscriptions is less strict: `foo.*` allows a subscription to `foo.>`, but not
        to read the messages stored on `foo.>`, because `foo.a.b` is one of their subjects. Deny
        rules that exclude only some of the subjects are not considered: use `denies` for each
        message.
        """
        allow = self._subscribe_allow
        if allow is not None and not any(
            is_subset(subject, pattern) for pattern, queue in allow if not queue
        ):
            return False
        return not self.denies(subject, b"")

    def denies(self, subject: bytes, queue: bytes) -> bool:
        """Return whether a deny rule excludes messages on `subject` for a subscription.

        `queue` is the queue of the subscription (b"": none).
        """
        plain, queues = _matching(self._subscribe_deny, subject)
        return plain or bool(queue and queues and _queue_matches(queue, queues))

    def may_deny(self, subject: bytes, queue: bytes) -> bool:
        """Return whether a deny rule may exclude some of the messages of a permitted subscription.

        If not, deliveries to the subscription need no check.
        """
        if not queue and not has_wildcard(subject):
            return False
        return any(overlap(pattern, subject) for pattern, _ in self._subscribe_deny)


class Guard:
    """The permissions of one connection.

    `tracks_replies` is True if the user has `allow_responses`: the guard then records the reply
    subjects of messages that are delivered to the connection.

    Args:
        grant: The permissions of the user.
        now: Returns monotonic time in nanoseconds.
    """

    __slots__ = ("_now", "_replies", "_responses", "grant", "tracks_replies")

    def __init__(self, grant: Grant, now: Callable[[], int]) -> None:
        self.grant = grant
        self._now = now
        self._responses = grant.permissions.responses or Responses()
        self.tracks_replies = grant.permissions.responses is not None
        self._replies: dict[bytes, list[int]] = {}

    def may_publish(self, subject: bytes) -> bool:
        """Return whether a message may be published to `subject`, also as an answer to a delivery.

        An answer that only `allow_responses` permits counts against the limit of answers.
        """
        return (
            subject in self.grant.publishable
            or self.grant.may_publish(subject)
            or (self.tracks_replies and self._may_answer(subject))
        )

    def checks_deliveries(self, subject: bytes, queue: bytes) -> bool:
        """Return whether `allow_delivery` must be called for each delivery to a subscription."""
        return self.tracks_replies or self.grant.may_deny(subject, queue)

    def denies(self, subject: bytes, queue: bytes) -> bool:
        """Return whether a deny rule excludes messages on `subject` for a subscription.

        `queue` is the queue of the subscription (b"": none).
        """
        return self.grant.denies(subject, queue)

    def allow_delivery(self, subject: bytes, queue: bytes, reply: bytes) -> bool:
        """Return whether a message may be delivered to a subscription.

        If so, and with `allow_responses`, the client may answer on `reply`.
        """
        if self.grant.denies(subject, queue):
            return False
        if self.tracks_replies and reply and not self.may_publish(reply):
            if len(self._replies) >= _REPLIES_MAX:
                self._prune()
            self._replies[reply] = [self._now(), 0]
        return True

    def _may_answer(self, subject: bytes) -> bool:
        entry = self._replies.get(subject)
        if entry is None:
            return False
        entry[1] += 1
        if self._is_spent(entry, 0):
            del self._replies[subject]
            return False
        return True

    def _prune(self) -> None:
        self._replies = {s: e for s, e in self._replies.items() if not self._is_spent(e, 1)}
        # half of the entries must be free afterwards, or every message would prune again
        for subject in list(self._replies)[: -_REPLIES_MAX // 2]:
            del self._replies[subject]

    def _is_spent(self, entry: list[int], more: int) -> bool:
        responses = self._responses
        if 0 < responses.limit < entry[1] + more:
            return True
        return 0 < responses.ttl * NANOS_PER_SECOND < self._now() - entry[0]


def _everything(_subject: bytes) -> bool:
    return True


def _matcher(entries: tuple[str, ...]) -> Callable[[bytes], bool]:
    """Return a function that tests whether any filter matches; never if a token is empty."""
    patterns = [entry.encode() for entry in entries]
    if not patterns:
        return lambda _subject: False
    quick = compile_filters(patterns)
    if quick is None:  # `>` is among the filters
        return _has_no_empty_token
    if not any(map(has_wildcard, patterns)):
        return quick
    return lambda subject: quick(subject) and _has_no_empty_token(subject)


def _has_no_empty_token(subject: bytes) -> bool:
    return b"" not in subject.split(b".")


def _patterns(entries: tuple[str, ...] | None) -> list[Pattern] | None:
    if entries is None:
        return None
    parts = [entry.encode().split() for entry in entries]
    return [(part[0], part[1] if len(part) > 1 else b"") for part in parts]


def _matching(patterns: list[Pattern], subject: bytes) -> tuple[bool, list[bytes]]:
    """Return whether a pattern without a queue matches, and the queues of the other matches."""
    hits = [queue for pattern, queue in patterns if matches(subject, pattern)]
    return b"" in hits, [queue for queue in hits if queue]


def _queue_matches(queue: bytes, known: list[bytes]) -> bool:
    return any(queue == name or (has_wildcard(name) and is_subset(queue, name)) for name in known)
