"""Permissions made ready for use: subjects in, yes or no out.

A `Grant` belongs to one value of permissions and is shared by all who have it; what it found out
about a subject it keeps. A `Guard` belongs to one connection: it adds what changes while the
connection lives, the reply subjects it may answer on.

Patterns are held against what a client asks for token by token, its wildcards taken literally,
as the reference server does it: `foo.*` admits a subscription to `foo.>` too.
"""

from collections.abc import Callable

from core.auth.users import Permissions, Responses
from core.subjects.subject import compile_filters, has_wildcard, is_subset, matches, overlap

_KNOWN_MAX = 16384
_REPLIES_MAX = 4096
_SECOND = 1_000_000_000

Pattern = tuple[bytes, bytes]
"""A subject filter, and the queue (or a filter of queues) it speaks of, if any."""


class Grant:
    """What a user may do.

    `known` holds subjects that were found publishable; look there before asking `may_publish`.
    """

    def __init__(self, permissions: Permissions) -> None:
        self.permissions = permissions
        self.known: set[bytes] = set()
        publish = permissions.publish
        self.limits_publish = publish.allow is not None or bool(publish.deny)
        self._allowed = _test(publish.allow) if publish.allow is not None else _everything
        self._denied = _test(publish.deny)
        self._subscribe_allow = _patterns(permissions.subscribe.allow)
        self._subscribe_deny = _patterns(permissions.subscribe.deny) or []

    def may_publish(self, subject: bytes) -> bool:
        """Say whether a message may be published on `subject`, answers apart."""
        if not self._allowed(subject) or self._denied(subject):
            return False
        if len(self.known) >= _KNOWN_MAX:
            self.known.clear()
        self.known.add(subject)
        return True

    def may_subscribe(self, subject: bytes, queue: bytes) -> bool:
        """Say whether a subscription may be made."""
        if self._subscribe_allow is not None:
            plain, queues = _found(self._subscribe_allow, subject)
            allowed = _queue_matches(queue, queues) if queue and queues else plain
            if not allowed:
                return False
        return not self.denies(subject, queue)

    def denies(self, subject: bytes, queue: bytes) -> bool:
        """Say whether a message on `subject` is denied to a subscription of that queue."""
        plain, queues = _found(self._subscribe_deny, subject)
        return plain or bool(queue and queues and _queue_matches(queue, queues))

    def may_deny(self, subject: bytes, queue: bytes) -> bool:
        """Say whether messages that a legal subscription gets must be looked at one by one."""
        if not queue and not has_wildcard(subject):
            return False
        return any(overlap(pattern, subject) for pattern, _ in self._subscribe_deny)


class Guard:
    """A grant in the hands of one connection. `now` is a monotonic clock, in nanoseconds.

    `tracks` says that received reply subjects are remembered.
    """

    __slots__ = ("_now", "_replies", "_responses", "grant", "tracks")

    def __init__(self, grant: Grant, now: Callable[[], int]) -> None:
        self.grant = grant
        self._now = now
        self._responses = grant.permissions.responses or Responses()
        self.tracks = grant.permissions.responses is not None
        self._replies: dict[bytes, list[int]] = {}

    def may_publish(self, subject: bytes) -> bool:
        """Say whether a message may be published, as an answer too (which counts)."""
        return (
            subject in self.grant.known
            or self.grant.may_publish(subject)
            or (self.tracks and self._may_answer(subject))
        )

    def watches(self, subject: bytes, queue: bytes) -> bool:
        """Say whether a subscription's deliveries concern this guard at all."""
        return self.tracks or self.grant.may_deny(subject, queue)

    def denies(self, subject: bytes, queue: bytes) -> bool:
        """Say whether a message may not be delivered."""
        return self.grant.denies(subject, queue)

    def passes(self, subject: bytes, queue: bytes, reply: bytes) -> bool:
        """Say whether a message may be delivered; then its reply subject may be answered on."""
        if self.grant.denies(subject, queue):
            return False
        if self.tracks and reply and not self.may_publish(reply):
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
        # half of the room must be free then, or every message would prune again
        for subject in list(self._replies)[: -_REPLIES_MAX // 2]:
            del self._replies[subject]

    def _is_spent(self, entry: list[int], more: int) -> bool:
        responses = self._responses
        if 0 < responses.limit < entry[1] + more:
            return True
        return 0 < responses.ttl * _SECOND < self._now() - entry[0]


def _everything(_subject: bytes) -> bool:
    return True


def _test(entries: tuple[str, ...]) -> Callable[[bytes], bool]:
    """Make one test of several filters; an empty token makes a subject match nothing."""
    patterns = [entry.encode() for entry in entries]
    if not patterns:
        return lambda _subject: False
    quick = compile_filters(patterns)
    if quick is None:  # all there is
        return _is_whole
    if not any(map(has_wildcard, patterns)):
        return quick
    return lambda subject: quick(subject) and _is_whole(subject)


def _is_whole(subject: bytes) -> bool:
    return b"" not in subject.split(b".")


def _patterns(entries: tuple[str, ...] | None) -> list[Pattern] | None:
    if entries is None:
        return None
    parts = [entry.encode().split() for entry in entries]
    return [(part[0], part[1] if len(part) > 1 else b"") for part in parts]


def _found(patterns: list[Pattern], subject: bytes) -> tuple[bool, list[bytes]]:
    """Return whether a pattern without queue admits the subject, and the queues of those with."""
    hits = [queue for pattern, queue in patterns if matches(subject, pattern)]
    return b"" in hits, [queue for queue in hits if queue]


def _queue_matches(queue: bytes, known: list[bytes]) -> bool:
    return any(queue == name or (has_wildcard(name) and is_subset(queue, name)) for name in known)
