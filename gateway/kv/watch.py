"""Conversion of a bucket's messages to the events of a watch: changes of keys."""

from dataclasses import dataclass, field
from typing import Any, Literal

from core.client.subscribe import SubscriptionTarget
from core.model.consumer import DeliverPolicy
from core.model.gotime import format_time
from core.model.message import StoredMsg
from gateway.buckets.models import KvChange
from gateway.formats.rendering import show_payload
from gateway.kv import kv_store

_EVENTS: dict[str, Literal["put", "delete", "purge"]] = {
    "PUT": "put",
    "DEL": "delete",
    "PURGE": "purge",
}


@dataclass(slots=True)
class KvFeed:
    """A watch of keys in a bucket: the selected keys, and the form of the events.

    Attributes:
        filters: Keys with wildcards; empty: all keys.
        history: True if the watch begins with all stored revisions, not the current values.
        updates_only: True if the watch omits the current values.
        ignore_deletes: True if deletions are not reported.
        meta_only: True if events have no values.
    """

    bucket: str
    filters: tuple[str, ...]
    history: bool
    updates_only: bool
    ignore_deletes: bool
    meta_only: bool
    _prefix: str = field(default="", init=False)

    @property
    def only_news(self) -> bool:
        """True if the watch omits the current values."""
        return self.updates_only

    def target(self, info: dict[str, Any]) -> SubscriptionTarget:
        """Return the stream, subjects and start for the subscription of the watch.

        `info` is the info of the bucket's stream.
        """
        self._prefix = kv_store.place_of(info).reads
        begin = DeliverPolicy.LAST_PER_SUBJECT
        if self.history:
            begin = DeliverPolicy.ALL
        elif self.updates_only:
            begin = DeliverPolicy.NEW
        return kv_store.filtered(
            self.bucket, self._prefix, self.filters, begin, headers_only=self.meta_only
        )

    def event(self, msg: StoredMsg, position: str) -> KvChange | None:
        """Return the event for a message; None if the watch does not report it."""
        operation = kv_store.operation_of(msg.hdrs)
        key = msg.subject.removeprefix(self._prefix)
        if (operation != "PUT" and self.ignore_deletes) or kv_store.is_pattern(key):
            return None
        change = KvChange(
            bucket=self.bucket,
            key=key,
            revision=msg.seq,
            created=format_time(msg.time),
            operation=operation,
            event=_EVENTS[operation],
            position=position,
        )
        if operation == "PUT" and not self.meta_only:
            show_payload(change, msg.data)
        return change
