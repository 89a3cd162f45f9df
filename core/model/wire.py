"""The annotations of struct fields (marks) that determine their JSON form for `codec`.

The reference server is written in Go, and its error texts contain Go types. Clients see those
names, so each scalar has one.
"""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

ZERO_TIME = -62_135_596_800_000_000_000
"""The instant that stands for "no time" on the wire: 0001-01-01T00:00:00Z."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A JSON number with the name and the bounds of its Go type."""

    go: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Instant:
    """Nanoseconds since the Unix epoch in Python, an RFC 3339 string in JSON.

    `zero_is_unset` encodes 0 as the zero time, for times that are always present.
    """

    zero_is_unset: bool


class Mark:
    """A mark without parameters."""


OMIT = Mark()
"""Omit the member if its value is empty: zero, "", false, no elements, None."""

OPTIONAL = Mark()
"""Omit the member if it is None; zero is a value."""

INLINE = Mark()
"""Encode the members of this struct in place, or nothing if it is None."""

HIDDEN = Mark()
"""The attribute is not a member of the JSON object."""

BASE64 = Mark()
"""Bytes in Python, a base64 string in JSON."""

_LOW, _HIGH = -(2**63), 2**63 - 1
_BITS_64 = Meta(ge=_LOW, le=_HIGH)

Int = Annotated[int, Scalar("int", _LOW, _HIGH), _BITS_64]
Int64 = Annotated[int, Scalar("int64", _LOW, _HIGH), _BITS_64]
Int32 = Annotated[int, Scalar("int32", -(2**31), 2**31 - 1)]
Uint64 = Annotated[int, Scalar("uint64", 0, 2**64 - 1)]
Duration = Annotated[int, Scalar("time.Duration", _LOW, _HIGH), _BITS_64]
"""Nanoseconds."""

Time = Annotated[int, Instant(zero_is_unset=True)]
OptionalTime = Annotated[int | None, Instant(zero_is_unset=False)]
