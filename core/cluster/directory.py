"""The stream directory: all streams of all nodes, and the lease group of a new stream. No I/O.

The directory is stored in PostgreSQL; `StreamDirectory` is a node's copy of it in memory. Each
change raises its version by one. The copy has the state at one version. `apply` adds later changes,
either from a change by this node itself or from a read of storage. The same changes may be applied
twice: the second time has no effect.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from core.cluster.tags import NO_TAGS, tags_of
from core.errors import OperatorError
from core.model.codec import decode_lenient
from core.model.gojson import JsonError
from core.model.stream import StreamConfig
from core.model.transactions import STAGE
from core.runtime.subscribers import Subscribers
from core.units import LeaseGroup

if TYPE_CHECKING:
    from core.storage.interface import DirectoryNews, DirectoryRow


@dataclass(frozen=True, slots=True)
class StreamChange:
    """One stream that was created, changed or deleted in the directory.

    Attributes:
        stream: The stream after the change; for a deletion the deleted stream.
        is_new: True if it was created.
    """

    stream: KnownStream
    is_new: bool


UNREAD = -1
"""Version of a directory that was not read yet."""


@dataclass(frozen=True, slots=True)
class KnownStream:
    """A stream in the directory.

    Attributes:
        number: Its number in storage.
        account: Name of its account.
        name: Its name.
        lease_group: Number of its lease group, the set of streams with the same leader.
        creation: Id of the request that created it.
        config: Its configuration.
    """

    number: int
    account: str
    name: str
    lease_group: LeaseGroup
    creation: int
    config: StreamConfig


def stored_config(name: str, number: int, text: str) -> StreamConfig:
    """Return the configuration in the row of a stream; `text` is its JSON.

    Raises OperatorError if the JSON cannot be decoded. The node then serves no stream: if it only
    left out this one, the stream would look deleted.
    """
    try:
        return decode_lenient(StreamConfig, text.encode())
    except JsonError as error:
        raise OperatorError(
            f"the configuration of stream {name} cannot be read"
            f" (jetgate_store.stream, stream {number}): {error}"
        ) from error


class StreamDirectory:
    """The streams of all accounts at one version of the directory.

    Attributes:
        version: The number of changes ever made to the directory; `UNREAD` before the first read.
        changed: Called with the changes after each application of a newer version.
        updates: Number of calls of `apply` that had an effect.
    """

    def __init__(self) -> None:
        self.version = UNREAD
        self.changed: Subscribers[[Sequence[StreamChange]]] = Subscribers()
        self.updates = 0
        self._streams: dict[int, KnownStream] = {}
        self._accounts: dict[str, dict[str, KnownStream]] = {}
        self._groups: dict[LeaseGroup, Counter[frozenset[str]]] = {}

    @property
    def is_known(self) -> bool:
        """True once the directory was read from storage."""
        return self.version > UNREAD

    def find(self, account: str, name: str) -> KnownStream | None:
        """Return a stream by account and name; None if there is none."""
        return self._accounts.get(account, {}).get(name)

    def kin(self, account: str, name: str) -> KnownStream | None:
        """Return the stream that must have the same leader as stream `name`; None if there is none.

        For a staging stream (`core.model.transactions`) it is the target stream, and vice versa.
        """
        target = name.removeprefix(STAGE)
        return self.find(account, STAGE + name if target == name else target)

    def of(self, account: str) -> Mapping[str, KnownStream]:
        """Return the streams of an account by name."""
        return self._accounts.get(account, {})

    def all(self) -> Iterable[KnownStream]:
        """Return the streams of all accounts."""
        return self._streams.values()

    def groups(self) -> Mapping[LeaseGroup, int]:
        """Return the number of streams of each lease group that has at least one."""
        return {group: asked.total() for group, asked in self._groups.items() if asked}

    def tags(self) -> Mapping[LeaseGroup, frozenset[str]]:
        """Return the placement tags that the streams of each lease group require.

        Groups without tags are left out.
        """
        found = {group: NO_TAGS.union(*asked) for group, asked in self._groups.items()}
        return {group: tags for group, tags in found.items() if tags}

    def group_for_new_stream(
        self,
        groups: Iterable[LeaseGroup],
        tags: frozenset[str] = NO_TAGS,
        coming: Iterable[tuple[LeaseGroup, frozenset[str]]] = (),
    ) -> LeaseGroup:
        """Return the lease group, out of `groups`, for a new stream that requires placement tags.

        `coming` has the lease group and tags of each stream that is being created; they count too.

        Order of preference: first a group that is empty or whose streams all require exactly these
        tags, so that no stream is bound by the tags of another; then a group whose streams together
        require these tags; then any group. Among equals the group with the fewest streams, then the
        lowest number.
        """

        new: dict[LeaseGroup, Counter[frozenset[str]]] = {}
        for group, asked in coming:
            new.setdefault(group, Counter(self._groups.get(group, ())))[asked] += 1

        def rank(group: LeaseGroup) -> tuple[int, int, LeaseGroup]:
            asked = new.get(group) or self._groups.get(group, Counter())
            if not asked or asked.keys() == {tags}:
                others = 0
            else:
                others = 1 if NO_TAGS.union(*asked) == tags else 2
            return others, asked.total(), group

        return min(groups, key=rank)

    # -- news --------------------------------------------------------------------------------

    def apply(self, news: DirectoryNews, updates: int | None = None) -> None:
        """Apply changes of the directory. Changes up to the present version have no effect.

        A complete read (`news.is_whole`) replaces all streams. It may have a lower version, if
        storage was restored. Such a read is ignored if other changes were applied since it began:
        `updates` is the value of the attribute `updates` at that time; None if the changes were not
        read from storage. Raises OperatorError if the row of a stream is damaged.
        """
        before = self._streams
        numbers = dict.fromkeys(row.stream for row in news.rows)
        if news.is_whole:
            if news.version < self.version and updates not in (None, self.updates):
                return  # older than changes applied since the read began
            numbers = dict.fromkeys((*before, *numbers))
            self._forget_all()
        elif news.version <= self.version:
            return
        else:
            before = {number: before[number] for number in numbers if number in before}
        for row in news.rows:
            self._put(row)
        self.version = news.version
        self.updates += 1
        changes = list(self._changes(before, numbers))
        self.changed(changes)

    def _changes(
        self, before: Mapping[int, KnownStream], numbers: Iterable[int]
    ) -> Iterator[StreamChange]:
        """Yield the changes of the streams in `numbers` that differ from `before`."""
        for number in numbers:
            old, new = before.get(number), self._streams.get(number)
            if (stream := new or old) is not None and old != new:
                yield StreamChange(stream, is_new=old is None)

    def _forget_all(self) -> None:
        self._streams = {}
        self._accounts.clear()
        self._groups.clear()

    def _put(self, row: DirectoryRow) -> None:
        before = self._streams.pop(row.stream, None)
        if before is not None:
            of_account = self._accounts[before.account]
            if of_account.get(before.name) is before:  # else another stream has the name by now
                del of_account[before.name]
            self._count(before, -1)
        if row.is_deleted:
            return
        config = stored_config(row.name, row.stream, row.config)
        found = KnownStream(
            row.stream, row.account, row.name, row.lease_group, row.creation, config
        )
        self._streams[row.stream] = found
        self._accounts.setdefault(row.account, {})[row.name] = found
        self._count(found, 1)

    def _count(self, stream: KnownStream, change: int) -> None:
        """Add `change` to the number of streams with the same lease group and tags."""
        tags = tags_of(stream.config.placement)
        asked = self._groups.setdefault(stream.lease_group, Counter())
        asked[tags] += change
        if not asked[tags]:
            del asked[tags]
