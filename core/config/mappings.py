"""The configuration block `mappings`: subjects of publishes, and the subjects they become.

    mappings {
      orders: "shop.orders"
      "old.*.*": "new.$2.{{wildcard(1)}}"
      api: [ { destination: api.v1, weight: 90% }, { destination: api.v2, weight: 10% } ]
    }

A destination with `cluster` applies on the servers of that cluster. The error texts are those of
nats-server.
"""

from datetime import datetime
from itertools import count
from typing import Any

from core.config.grammar import Item, plain
from core.model.mapping import MappingError, check_mapping
from core.pubsub.mappings import Destination, Mapping
from core.subjects.subject import is_valid_filter

_WHOLE = 100
_TYPES = {
    bool: "bool",
    int: "int64",
    float: "float64",
    list: "[]interface {}",
    dict: "map[string]interface {}",
    datetime: "time.Time",
}


def mappings_of(block: Item, mistakes: list[str]) -> tuple[Mapping, ...]:
    """Decode the block `mappings`; return its valid mappings.

    Appends each error to `mistakes`, as one line with its position.
    """
    if not isinstance(block.value, dict):
        mistakes.append(f"{block.place}: {_not(block.value, 'map[string]interface {}')}")
        return ()
    found = []
    for src, item in block.value.items():
        if not is_valid_filter(src.encode()):
            mistakes.append(f'{block.place}: Subject "{src}" is not a valid subject')
            continue
        mapping = _mapping(src, item, mistakes)
        if mapping is not None:
            found.append(mapping)
    return tuple(found)


def _mapping(src: str, item: Item, mistakes: list[str]) -> Mapping | None:
    value = item.value
    before = len(mistakes)
    if isinstance(value, str):
        try:
            check_mapping(src, value)
        except MappingError as error:
            mistakes.append(
                f'{item.place}: Error adding mapping for "{src}" to "{value}" : {error}'
            )
        entries = [Destination(value)]
    elif isinstance(value, list | dict):
        parts = value if isinstance(value, list) else [item]
        entries = [entry for part in parts if (entry := _entry(part, item, mistakes))]
        is_list = isinstance(value, list)  # its valid entries are checked despite invalid ones
        if (is_list or entries) and (wrong := _wrong(src, entries)):
            mistakes.append(f'{item.place}: Error adding mapping for "{src}" : {wrong}')
    else:
        mistakes.append(f"{item.place}: Expected an entry for the mapping destination")
    if len(mistakes) > before:
        return None
    return Mapping(src, tuple(each for each in entries if each.dest))


def _entry(part: Item, item: Item, mistakes: list[str]) -> Destination | None:
    if not isinstance(part.value, dict):
        mistakes.append(f"{part.place}: Expected an entry for the mapping destination")
        return None
    dest, cluster, weight = "", "", -1
    for key, member in part.value.items():
        name = key.lower()
        if name in ("dest", "destination", "cluster"):
            if not isinstance(member.value, str):
                mistakes.append(f"{item.place}: {_not(member.value, 'string')}")
                return None
            if name == "cluster":
                cluster = member.value
            else:
                dest = member.value
        elif name == "weight":
            text = _weight(member)
            if isinstance(text, str):
                mistakes.append(f"{member.place}: {text}")
                return None
            weight = text
        else:
            mistakes.append(f'{member.place}: Unknown field "{key}" for mapping destination')
            return None
    if weight < 0:
        mistakes.append(f'{part.place}: Missing weight for mapping destination "{dest}"')
        return None
    return Destination(dest, weight, cluster)


def _weight(member: Item) -> int | str:
    """Return the weight in per cent, 0 to 100, or an error text."""
    value = plain(member)
    if isinstance(value, str):
        digits = value.removesuffix("%")
        if not digits.isdigit() or int(digits) > _WHOLE:
            shown = digits if digits.lstrip("-").isdigit() else f'"{digits}"'
            return f"Invalid weight {shown} for mapping destination"
        return int(digits)
    if type(value) is not int:
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        return f"Unknown entry type for weight of {shown}\n"
    if not 0 <= value <= _WHOLE:
        return f"Invalid weight {value} for mapping destination"
    return value


def _wrong(src: str, entries: list[Destination]) -> str:
    """Return the error text for a list of destinations; empty if they are valid together."""
    seen: set[str] = set()
    totals: dict[str, int] = {}
    for each in entries:
        if each.dest in seen:
            return f'duplicate entry for "{each.dest}"'
        seen.add(each.dest)
        totals[each.cluster] = totals.get(each.cluster, 0) + each.weight
        if totals[each.cluster] > _WHOLE:
            return "total weight needs to be <= 100"
        if wrong := _unmappable(src, each.dest):
            return wrong
    # A rest below 100 % keeps its subject.
    return "" if src in seen or totals.get("", 0) == _WHOLE else _unmappable(src, _itself(src))


def _itself(src: str) -> str:
    """Return the destination that maps each subject matching `src` to itself."""
    numbers = count(1)
    return ".".join(f"${next(numbers)}" if part == "*" else part for part in src.split("."))


def _unmappable(src: str, dest: str) -> str:
    try:
        check_mapping(src, dest)
    except MappingError as error:
        return str(error)
    return ""


def _not(value: Any, wanted: str) -> str:
    found = _TYPES.get(type(value), "nil" if value is None else "string")
    return f"interface conversion: interface {{}} is {found}, not {wanted}"
