"""Detection of repeated members in a MessagePack map; such frames are refused, as in JSON.

Decoding keeps only the last of two equal members. But the head of a map contains its number of
members, so a decoded map with fewer members repeats one.
"""

import msgspec
from msgspec import Raw

_MAP = msgspec.msgpack.Decoder(dict[str, Raw])
_ARRAY = msgspec.msgpack.Decoder(list[Raw])
_FIXED_MAPS = range(0x80, 0x90)
_FIXED_ARRAYS = range(0x90, 0xA0)
_ARRAYS = (*_FIXED_ARRAYS, 0xDC, 0xDD)
_MAP_16, _MAP_32 = 0xDE, 0xDF


def repeats_a_member(data: bytes) -> bool:
    """Return True if a map in the data repeats a member: a frame, a frame of an array, or a nested
    map.

    Frames have known shapes: names are text, and arrays within a frame contain no maps.
    """
    frames = _ARRAY.decode(data) if data[0] in _ARRAYS else [data]
    return any(map(_repeats, frames))


def _repeats(value: bytes | Raw) -> bool:
    size = _map_size(memoryview(value))
    if size is None:
        return False
    members = _MAP.decode(value)
    return len(members) != size or any(map(_repeats, members.values()))


def _map_size(value: memoryview) -> int | None:
    """Return the number of members in the head of a map; None if the value is not a map."""
    head = value[0]
    if head in _FIXED_MAPS:
        return head - _FIXED_MAPS.start
    if head == _MAP_16:
        return int.from_bytes(value[1:3])
    return int.from_bytes(value[1:5]) if head == _MAP_32 else None
