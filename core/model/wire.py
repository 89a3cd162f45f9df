"""The annotations of struct fields that determine their JSON form for `core.model.codec`.

nats-server is written in Go, and clients see the names of Go types in its error texts. So each
scalar has such a name.
"""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

ZERO_TIME = -62_135_596_800_000_000_000
"""The time that means "no time" in JSON, `0001-01-01T00:00:00Z`, in nanoseconds from 1970."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """Annotation of a JSON number: the name and the bounds of its Go type."""

    go: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Instant:
    """Annotation of a time: nanoseconds since the Unix epoch in Python, an RFC 3339 string in JSON.

    `zero_is_unset` True encodes 0 as Go's zero time (`ZERO_TIME`), for members that are always
    present.
    """

    zero_is_unset: bool


class Mark:
    """An annotation of a struct field that changes its JSON form, such as OMIT or BASE64."""


OMIT = Mark()
"""Omit the member if its value is empty: 0, "", False, no elements, or None."""

OPTIONAL = Mark()
"""Omit the member if it is None; 0 is encoded."""

INLINE = Mark()
"""Encode the members of this struct in place of a nested object; nothing if it is None."""

HIDDEN = Mark()
"""The attribute is no member of the JSON object."""

BASE64 = Mark()
"""The member is `bytes` in Python, and a base64 string in JSON."""

_LOW, _HIGH = -(2**63), 2**63 - 1
_BITS_64 = Meta(ge=_LOW, le=_HIGH)

Int = Annotated[int, Scalar("int", _LOW, _HIGH), _BITS_64]
Int64 = Annotated[int, Scalar("int64", _LOW, _HIGH), _BITS_64]
Int32 = Annotated[int, Scalar("int32", -(2**31), 2**31 - 1)]
Uint64 = Annotated[int, Scalar("uint64", 0, 2**64 - 1)]
Duration = Annotated[int, Scalar("time.Duration", _LOW, _HIGH), _BITS_64]
"""A duration in nanoseconds."""

Time = Annotated[int, Instant(zero_is_unset=True)]
OptionalTime = Annotated[int | None, Instant(zero_is_unset=False)]
