"""The JSON of key-value buckets and object stores: configurations, keys, values and objects.

Names are those of the official clients' configurations (ADR-8, ADR-20), which differ from those of
the underlying streams in places. Durations are nanoseconds or text in requests, and nanoseconds in
responses.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from gateway.formats.models import Duration, ProblemBody, Time

Replicas = Annotated[int, Meta(ge=1, le=5)]
Limit = Annotated[int, Meta(ge=-1)]
Sequence = Annotated[int, Meta(ge=0)]
Storage = Literal["file", "memory"]


class BucketPlacement(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The cluster and tags that a bucket is to be placed by."""

    cluster: str = ""
    tags: list[str] = []


class BucketRepublish(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Republication of stored values as messages: source and destination subjects."""

    src: str = ""
    dest: str = ""
    headers_only: bool = False


class External(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The API prefix of another account or domain."""

    api: str
    deliver: str = ""


class Transform(Struct, forbid_unknown_fields=True):
    """A mapping from the subjects of copied messages to those under which they are stored."""

    src: str
    dest: str


class Origin(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The origin of a mirror or source: the name of a bucket, with or without `KV_`.

    `domain` stands for the `external` of that domain. Without `subject_transforms`, keys keep their
    names.
    """

    name: str
    domain: str = ""
    external: External | None = None
    opt_start_seq: Sequence = 0
    opt_start_time: Time | None = None
    filter_subject: str = ""
    subject_transforms: list[Transform] = []


class KvConfig(Struct, forbid_unknown_fields=True):
    """The configuration of a key-value bucket (ADR-8, ADR-48). -1: no limit; 0: never.

    `limit_marker_ttl`: how long the marker of an expired key is kept; if set, single keys may have
    a time to live.
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
    """A key-value bucket: configuration and state. `values` counts all kept values and markers."""

    bucket: str
    stream: str
    config: KvConfig
    created: Time
    values: int
    keys: int
    bytes: int
    last_revision: int


class KvBuckets(Struct):
    """A page of buckets; the next page begins after `offset + limit` streams, of `total`."""

    buckets: list[KvBucket]
    total: int
    offset: int
    limit: int


class KvRevision(Struct):
    """The place of a stored value: bucket, key and revision."""

    bucket: str
    key: str
    revision: int


class KvEntry(Struct, omit_defaults=True):
    """A value of a key, or its deletion marker.

    A value has exactly one of `data` (a JSON object or array), `text` (UTF-8) and `data_base64`; if
    only keys were requested, none.
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
    """The kept values of a key, oldest first."""

    entries: list[KvEntry]


class KvKey(Struct):
    """A key, with the revision and time of its last value."""

    key: str
    revision: int
    created: Time


class KvKeys(Struct):
    """The keys of a bucket that have a value."""

    keys: list[KvKey]


class KvCleaning(Struct, forbid_unknown_fields=True):
    """The minimum age of the deletions whose markers are removed."""

    older_than: Duration = "30m"


class ObjectCleaning(Struct, forbid_unknown_fields=True):
    """The minimum age of the last chunk of unfinished uploads whose chunks are removed."""

    older_than: Duration = "24h"


class Cleaned(Struct):
    """The number of removed messages."""

    purged: int


class Opened(Struct, omit_defaults=True):
    """The start of a feed, after `position`.

    `recovered`: for a resumed feed, true if no change since then is missing; if false, the feed
    begins with all current entries.
    """

    event: Literal["open"]
    position: str
    recovered: bool | UnsetType = UNSET


class Ready(Struct):
    """The end of the initial entries of a feed; changes follow."""

    event: Literal["ready"]
    position: str


class Ended(Struct):
    """The end of a feed, and its cause."""

    event: Literal["end"]
    problem: ProblemBody


class Heartbeat(Struct):
    """A sign of life of a feed without changes."""

    event: Literal["heartbeat"]


class KvChange(KvEntry, kw_only=True, omit_defaults=True):
    """A change of a key in a feed. `position` resumes the feed after it."""

    event: Literal["put", "delete", "purge"]
    position: str


class ObjectStoreConfig(Struct, forbid_unknown_fields=True):
    """The configuration of an object store (ADR-20). -1: no limit; a `ttl` of 0: no expiry."""

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
    """A page of object stores; the next page begins after `offset + limit` streams, of `total`."""

    buckets: list[ObjectStore]
    total: int
    offset: int
    limit: int


class Link(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """The target of a link: an object, or without `name` a whole store."""

    bucket: str
    name: str = ""


class ObjectInfo(Struct, omit_defaults=True):
    """An object. `digest` is `SHA-256=` and base64url; `revision` is that of this information."""

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
    """The changeable members of an object's information; a new `name` renames the object."""

    name: str
    description: str = ""
    headers: dict[str, list[str]] = {}
    metadata: dict[str, str] = {}


class Objects(Struct):
    """The objects of a store."""

    objects: list[ObjectInfo]


class ObjectChange(ObjectInfo, kw_only=True, omit_defaults=True):
    """A change of an object in a feed. `position` resumes the feed after it."""

    event: Literal["put", "delete"]
    position: str
