"""The changes of a store's objects, as events."""

from dataclasses import dataclass
from typing import Any

from core.client.subscribe import SubscriptionTarget
from core.model.consumer import DeliverPolicy
from core.model.message import StoredMsg
from gateway.buckets.models import ObjectChange, ObjectInfo
from gateway.objects import object_store


@dataclass(slots=True)
class ObjectFeed:
    """The objects of a store to follow, and the form of their events."""

    bucket: str
    updates_only: bool
    ignore_deletes: bool

    @property
    def only_news(self) -> bool:
        """True if the feed omits the current objects."""
        return self.updates_only

    def target(self, info: dict[str, Any]) -> SubscriptionTarget:
        """Return the stream and subjects to read from the beginning of the feed."""
        begin = DeliverPolicy.NEW if self.updates_only else DeliverPolicy.LAST_PER_SUBJECT
        return object_store.information(self.bucket, begin)

    def event(self, msg: StoredMsg, position: str) -> ObjectChange | None:
        """Return the event of a message; None: it is hidden."""
        info = object_store.info_of(msg)
        if info.deleted and self.ignore_deletes:
            return None
        members = {name: getattr(info, name) for name in ObjectInfo.__struct_fields__}
        return ObjectChange(**members, event="delete" if info.deleted else "put", position=position)
