"""Types of the JSON bodies of key-value buckets and object stores: configurations and entries.

Names are those of the official clients' configurations (ADR-8, ADR-20), which differ in part from
those of the underlying streams. Durations are nanoseconds or text such as `1.5s` in requests, and
nanoseconds in responses.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from gateway.formats.models import Duration, ProblemBody, Time

Replicas = Annotated[int, Meta(ge=1, le=5)]
Limit = Annotated[int, Meta(ge=-1)]
Sequence = Annotated[int, Meta(ge=0)]
Storage = Literal["file", "memory"]


class BucketPlacement(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The cluster and tags that select servers for a bucket."""

    cluster: str = ""
    tags: list[str] = []


class BucketRepublish(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Republication of stored values as messages: source and destination subjects."""

    src: str = ""
    dest: str = ""
    headers_only: bool = False


class External(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The JetStream API prefix of another account or domain."""

    api: str
    deliver: str = ""


class Transform(Struct, forbid_unknown_fields=True):
    """A subject mapping for copied messages: from `src` to `dest`, under which they are stored."""

    src: str
    dest: str


class Origin(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The bucket that a mirror or source copies; its name with or without `KV_`.

    A `domain` stands for the `external` with the API prefix of that domain. Without
    `subject_transforms`, keys keep their names.
    """

    name: str
    domain: str = ""
    external: External | None = None
    opt_start_seq: Sequence = 0
    opt_start_time: Time | None = None
    filter_subject: str = ""
    subject_transforms: list[Transform] = []


class KvConfig(Struct, forbid_unknown_fields=True):
    """The configuration of a key-value bucket (ADR-8, ADR-48). A limit of -1: none; a `ttl` of 0:
    none.

    `limit_marker_ttl` is the time for which the marker of an expired key is kept. If it is set,
    single keys may have a time to live.
    """

    bucket: str = ""
    description: str = ""
    max_value_size: Annotated[int, Meta(ge=-1, le=2**31 - 1)] = -1
    history: Annotated[int, Meta(ge=1, le=64)] = 1
    ttl: Duration = 0
    max_bytes: Limit = -1
    storage: Storage = "file"
    num_replicas: Replicas = 1
    placement: BucketPlacement | None = None
    republish: BucketRepublish | None = None
    mirror: Origin | None = None
    sources: list[Origin] = []
    compression: bool = False
    metadata: dict[str, str] = {}
    limit_marker_ttl: Duration = 0


class KvBucket(Struct, omit_defaults=True):
    """A key-value bucket: configuration and state.

    `values` counts all stored values and markers.
    """

    bucket: str
    stream: str
    config: KvConfig
    created: Time
    values: int
    keys: int
    bytes: int
    last_revision: int


class KvBuckets(Struct):
    """A page of the list of buckets; the next page begins at `offset + limit`.

    `total` is the number of all streams with subjects of buckets, even if they are no buckets.
    """

    buckets: list[KvBucket]
    total: int
    offset: int
    limit: int


class KvRevision(Struct):
    """The result of storing a value: its bucket, key and revision."""

    bucket: str
    key: str
    revision: int


class KvEntry(Struct, omit_defaults=True):
    """A value of a key, or its deletion marker.

    A value has exactly one of `data` (a JSON object or array), `text` (other UTF-8) and
    `data_base64`, or none of them if only keys were requested.
    """

    bucket: str
    key: str
    revision: int
    created: Time
    operation: Literal["PUT", "DEL", "PURGE"]
    data: Raw | UnsetType = UNSET
    text: str | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET


class KvHistory(Struct):
    """The stored revisions of a key, oldest first."""

    entries: list[KvEntry]


class KvKey(Struct):
    """A key, with the revision and time of its last value."""

    key: str
    revision: int
    created: Time


class KvKeys(Struct):
    """The response that lists the keys of a bucket that have a value."""

    keys: list[KvKey]


class KvCleaning(Struct, forbid_unknown_fields=True):
    """The request to remove old deletion markers, with the values before them.

    Markers that are younger than `older_than` are kept.
    """

    older_than: Duration = "30m"


class ObjectCleaning(Struct, forbid_unknown_fields=True):
    """The request to remove chunks of unfinished uploads whose last chunk is older than
    `older_than`.
    """

    older_than: Duration = "24h"


class Cleaned(Struct):
    """The number of messages that a cleaning has removed."""

    purged: int


class Opened(Struct, omit_defaults=True):
    """The first event of a watch, which starts after `position`.

    `recovered` is set if the client resumed the watch. True: no change since the client's position
    is missing. False: the watch begins with all current entries.
    """

    event: Literal["open"]
    position: str
    recovered: bool | UnsetType = UNSET


class Ready(Struct):
    """The event after the initial entries of a watch; changes follow."""

    event: Literal["ready"]
    position: str


class Ended(Struct):
    """The last event of a watch, with its cause."""

    event: Literal["end"]
    problem: ProblemBody


class Heartbeat(Struct):
    """A heartbeat of a watch, sent while nothing changes."""

    event: Literal["heartbeat"]


class KvChange(KvEntry, kw_only=True, omit_defaults=True):
    """The event for a change of a key.

    A watch that is resumed with `position` continues after it.
    """

    event: Literal["put", "delete", "purge"]
    position: str


class ObjectStoreConfig(Struct, forbid_unknown_fields=True):
    """The configuration of an object store (ADR-20).

    `max_bytes` -1: no limit; `ttl` 0: no expiry.
    """

    bucket: str = ""
    description: str = ""
    ttl: Duration = 0
    max_bytes: Limit = -1
    storage: Storage = "file"
    num_replicas: Replicas = 1
    placement: BucketPlacement | None = None
    compression: bool = False
    metadata: dict[str, str] = {}


class ObjectStore(Struct):
    """An object store: configuration and state. A sealed store accepts no changes."""

    bucket: str
    stream: str
    config: ObjectStoreConfig
    created: Time
    bytes: int
    sealed: bool


class ObjectStores(Struct):
    """A page of the list of stores; the next page begins at `offset + limit`.

    `total` is the number of all streams with subjects of stores, even if they are no stores.
    """

    buckets: list[ObjectStore]
    total: int
    offset: int
    limit: int


class Link(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The target of a link: an object, or a whole store if `name` is empty."""

    bucket: str
    name: str = ""


class ObjectInfo(Struct, omit_defaults=True):
    """The information about an object. `size` is in bytes.

    `digest` is `SHA-256=` and base64url. `revision` is the sequence of this information.
    """

    bucket: str
    name: str
    revision: int
    nuid: str
    size: int
    chunks: int
    mtime: Time
    digest: str = ""
    description: str = ""
    headers: dict[str, list[str]] = {}
    metadata: dict[str, str] = {}
    max_chunk_size: int = 0
    link: Link | None = None
    deleted: bool = False


class ObjectPatch(Struct, forbid_unknown_fields=True):
    """The members of an object's information that can be changed; a new `name` renames it."""

    name: str
    description: str = ""
    headers: dict[str, list[str]] = {}
    metadata: dict[str, str] = {}


class Objects(Struct):
    """The response that lists the objects of a store."""

    objects: list[ObjectInfo]


class ObjectChange(ObjectInfo, kw_only=True, omit_defaults=True):
    """The event for a change of an object.

    A watch that is resumed with `position` continues after it.
    """

    event: Literal["put", "delete"]
    position: str
