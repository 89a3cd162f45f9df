"""Members that are there twice in a map of MessagePack, which are refused as those of JSON are.

What is decoded has the last of two only. But the head of a map says how many members follow, and
so a map that has fewer when it is decoded had one of them twice.
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
    """Whether a map has a member twice: a frame, one of several, or what is in one. The frames are
    of known shapes: names are text, and in arrays of a frame there are no maps.
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
    """How many members a map has; None when it is something else."""
    head = value[0]
    if head in _FIXED_MAPS:
        return head - _FIXED_MAPS.start
    if head == _MAP_16:
        return int.from_bytes(value[1:3])
    return int.from_bytes(value[1:5]) if head == _MAP_32 else None
