"""Which streams there are, as every node knows them, whoever leads them, and which lease group a
new one gets. No I/O.

Each change of the directory raises its version by one. What is known is all that was so at one
version; what changed since is added (`apply`), from wherever it comes first: a change that this
node has made itself, a reading of storage. The same news applied twice changes nothing.
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

if TYPE_CHECKING:
    from core.storage.interface import DirectoryNews, DirectoryRow


@dataclass(frozen=True, slots=True)
class Change:
    """A stream that came, changed or went.

    Attributes:
        stream: as it is now; as it was, if it went.
        is_new: whether it came.
    """

    stream: KnownStream
    is_new: bool


UNREAD = -1
"""The version of a directory of which nothing is known yet."""


@dataclass(frozen=True, slots=True)
class KnownStream:
    """A stream.

    Attributes:
        number: that of its rows.
        account: whose it is.
        name: its name.
        lease_group: the group that it is led with.
        creation: the id of the request that created it.
        config: its configuration.
    """

    number: int
    account: str
    name: str
    lease_group: int
    creation: int
    config: StreamConfig


def stored_config(name: str, number: int, text: str) -> StreamConfig:
    """Return the configuration of a stream as its row has it.

    Raises OperatorError: the row is damaged. Without it nobody could tell the stream from one that
    was deleted, so nothing is served then, and nothing removed.
    """
    try:
        return decode_lenient(StreamConfig, text.encode())
    except JsonError as error:
        raise OperatorError(
            f"the configuration of stream {name} cannot be read"
            f" (jetgate_store.stream, stream {number}): {error}"
        ) from error


class StreamDirectory:
    """The streams of all accounts at one version.

    Attributes:
        version: how many changes there had been.
        changed: called with the changes when a version is known that was not before.
        updates: how often news were taken.
    """

    def __init__(self) -> None:
        self.version = UNREAD
        self.changed: Subscribers[[Sequence[Change]]] = Subscribers()
        self.updates = 0
        self._streams: dict[int, KnownStream] = {}
        self._accounts: dict[str, dict[str, KnownStream]] = {}
        self._groups: dict[int, Counter[frozenset[str]]] = {}

    @property
    def is_known(self) -> bool:
        """Whether it was read once."""
        return self.version > UNREAD

    def find(self, account: str, name: str) -> KnownStream | None:
        """Return a stream by its name."""
        return self._accounts.get(account, {}).get(name)

    def kin(self, account: str, name: str) -> KnownStream | None:
        """Return the stream that one of this name is led with: its stage, or whose stage it is."""
        target = name.removeprefix(STAGE)
        return self.find(account, STAGE + name if target == name else target)

    def of(self, account: str) -> Mapping[str, KnownStream]:
        """Return the streams of an account by name."""
        return self._accounts.get(account, {})

    def all(self) -> Iterable[KnownStream]:
        """Return the streams of all accounts."""
        return self._streams.values()

    def groups(self) -> Mapping[int, int]:
        """Return how many streams each lease group has that has any."""
        return {group: asked.total() for group, asked in self._groups.items() if asked}

    def tags(self) -> Mapping[int, frozenset[str]]:
        """Return the tags that streams of a lease group ask for, where any of them does."""
        found = {group: NO_TAGS.union(*asked) for group, asked in self._groups.items()}
        return {group: tags for group, tags in found.items() if tags}

    def group_for_new_stream(
        self,
        groups: Iterable[int],
        tags: frozenset[str] = NO_TAGS,
        coming: Iterable[tuple[int, frozenset[str]]] = (),
    ) -> int:
        """Return which of some lease groups a new stream that asks for tags is to be in.

        `coming`: the groups and tags of streams that are being created, which count as well.

        One whose streams all ask for the same, if it has any: no stream is bound by the tags of
        another then. Without one, one that has to have the same tags anyhow. Of several the one
        with the fewest streams; of several with as few the lowest.
        """

        new: dict[int, Counter[frozenset[str]]] = {}
        for group, asked in coming:
            new.setdefault(group, Counter(self._groups.get(group, ())))[asked] += 1

        def rank(group: int) -> tuple[int, int, int]:
            asked = new.get(group) or self._groups.get(group, Counter())
            if not asked or asked.keys() == {tags}:
                others = 0
            else:
                others = 1 if NO_TAGS.union(*asked) == tags else 2
            return others, asked.total(), group

        return min(groups, key=rank)

    # -- news --------------------------------------------------------------------------------

    def apply(self, news: DirectoryNews, updates: int | None = None) -> None:
        """Take what has changed; what is known already changes nothing. Raises OperatorError.

        `updates`: how often news had been taken when the reading of these began, if they were read.
        All streams as they are then replace what is known, even where the database went back.
        """
        before = self._streams
        numbers = dict.fromkeys(row.stream for row in news.rows)
        if news.is_whole:
            if news.version < self.version and updates not in (None, self.updates):
                return  # read before what was taken meanwhile
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
    ) -> Iterator[Change]:
        """Yield which of some streams are not as they were."""
        for number in numbers:
            old, new = before.get(number), self._streams.get(number)
            if (stream := new or old) is not None and old != new:
                yield Change(stream, is_new=old is None)

    def _forget_all(self) -> None:
        self._streams = {}
        self._accounts.clear()
        self._groups.clear()

    def _put(self, row: DirectoryRow) -> None:
        before = self._streams.pop(row.stream, None)
        if before is not None:
            of_account = self._accounts[before.account]
            if of_account.get(before.name) is before:  # else another has the name by now
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
        """Count a stream that came or went among those of its lease group."""
        tags = tags_of(stream.config.placement)
        asked = self._groups.setdefault(stream.lease_group, Counter())
        asked[tags] += change
        if not asked[tags]:
            del asked[tags]
