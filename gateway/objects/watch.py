"""Conversion of a store's messages to the events of a watch: changes of objects."""

from dataclasses import dataclass
from typing import Any

from core.client.subscribe import SubscriptionTarget
from core.model.consumer import DeliverPolicy
from core.model.message import StoredMsg
from gateway.buckets.models import ObjectChange, ObjectInfo
from gateway.objects import object_store


@dataclass(slots=True)
class ObjectFeed:
    """A watch of the objects in a store.

    Attributes:
        updates_only: True if the watch omits the current objects.
        ignore_deletes: True if deletions are not reported.
    """

    bucket: str
    updates_only: bool
    ignore_deletes: bool

    @property
    def only_news(self) -> bool:
        """True if the watch omits the current objects."""
        return self.updates_only

    def target(self, info: dict[str, Any]) -> SubscriptionTarget:
        """Return the stream, subjects and start for the subscription of the watch."""
        begin = DeliverPolicy.NEW if self.updates_only else DeliverPolicy.LAST_PER_SUBJECT
        return object_store.information(self.bucket, begin)

    def event(self, msg: StoredMsg, position: str) -> ObjectChange | None:
        """Return the event for a message; None if the watch does not report it."""
        info = object_store.info_of(msg)
        if info.deleted and self.ignore_deletes:
            return None
        members = {name: getattr(info, name) for name in ObjectInfo.__struct_fields__}
        return ObjectChange(**members, event="delete" if info.deleted else "put", position=position)
