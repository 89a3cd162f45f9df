"""The JSON of key-value buckets and object stores: their configurations, keys, values and objects.

Names are those of the official clients' configurations (ADR-8, ADR-20), which are not always those
of the streams behind them. Durations are nanoseconds or text, and nanoseconds in answers.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from gateway.models import Duration, ProblemBody, Time

Replicas = Annotated[int, Meta(ge=1, le=5)]
Limit = Annotated[int, Meta(ge=-1)]
Sequence = Annotated[int, Meta(ge=0)]
Storage = Literal["file", "memory"]


class BucketPlacement(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Where a bucket is to be placed."""

    cluster: str = ""
    tags: list[str] = []


class BucketRepublish(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """Where values are sent on to, as messages, when they are stored."""

    src: str = ""
    dest: str = ""
    headers_only: bool = False


class External(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """How another account or domain is reached."""

    api: str
    deliver: str = ""


class Transform(Struct, forbid_unknown_fields=True):
    """Under which subjects what is copied is stored."""

    src: str
    dest: str


class Origin(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A bucket that another one copies: its name, with or without `KV_`.

    `domain` stands for the `external` of that domain. Without `subject_transforms` keys keep their
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

    `limit_marker_ttl`: how long the marker of a key that expired is kept; it allows keys a time to
    live of their own.
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
    """A key-value bucket: configuration and state. `values` counts what is kept, markers too."""

    bucket: str
    stream: str
    config: KvConfig
    created: Time
    values: int
    keys: int
    bytes: int
    last_revision: int


class KvBuckets(Struct):
    """A page of buckets; the next one begins behind `offset + limit` streams, of `total`."""

    buckets: list[KvBucket]
    total: int
    offset: int
    limit: int


class KvRevision(Struct):
    """What was stored."""

    bucket: str
    key: str
    revision: int


class KvEntry(Struct, omit_defaults=True):
    """A value of a key, or the marker of its end.

    Of a value exactly one of `data` (a JSON object or array), `text` (UTF-8) and `data_base64` is
    there; where only keys were asked for, none.
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
    """The values of a key that are kept, oldest first."""

    entries: list[KvEntry]


class KvKey(Struct):
    """A key and its last value's place."""

    key: str
    revision: int
    created: Time


class KvKeys(Struct):
    """The keys of a bucket that have a value."""

    keys: list[KvKey]


class KvCleaning(Struct, forbid_unknown_fields=True):
    """Whose markers to remove: of keys deleted for at least so long."""

    older_than: Duration = "30m"


class ObjectCleaning(Struct, forbid_unknown_fields=True):
    """Whose chunks to remove: of uploads whose last chunk came at least so long ago."""

    older_than: Duration = "24h"


class Cleaned(Struct):
    """How many messages were removed."""

    purged: int


class Opened(Struct, omit_defaults=True):
    """A feed has begun behind `position`. `recovered`: of a resumed one, whether nothing is missing
    since; if not, it begins with all there is.
    """

    event: Literal["open"]
    position: str
    recovered: bool | UnsetType = UNSET


class Ready(Struct):
    """What was there when the feed began has been sent; changes follow."""

    event: Literal["ready"]
    position: str


class Ended(Struct):
    """The feed is over, and why."""

    event: Literal["end"]
    problem: ProblemBody


class Heartbeat(Struct):
    """Nothing happened; the feed is alive."""

    event: Literal["heartbeat"]


class KvChange(KvEntry, kw_only=True, omit_defaults=True):
    """A change of a key in a feed. `position` resumes the feed behind it."""

    event: Literal["put", "delete", "purge"]
    position: str


class ObjectStoreConfig(Struct, forbid_unknown_fields=True):
    """The configuration of an object store (ADR-20). -1: no limit; a `ttl` of 0: kept for ever."""

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
    """An object store: configuration and state. A sealed one changes no more."""

    bucket: str
    stream: str
    config: ObjectStoreConfig
    created: Time
    bytes: int
    sealed: bool


class ObjectStores(Struct):
    """A page of object stores; the next one begins behind `offset + limit` streams, of `total`."""

    buckets: list[ObjectStore]
    total: int
    offset: int
    limit: int


class Link(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """What a link leads to: an object, or without `name` a whole store."""

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
    """What of an object's information may be changed; `name` renames it."""

    name: str
    description: str = ""
    headers: dict[str, list[str]] = {}
    metadata: dict[str, str] = {}


class Objects(Struct):
    """The objects of a store."""

    objects: list[ObjectInfo]


class ObjectChange(ObjectInfo, kw_only=True, omit_defaults=True):
    """A change of an object in a feed. `position` resumes the feed behind it."""

    event: Literal["put", "delete"]
    position: str
