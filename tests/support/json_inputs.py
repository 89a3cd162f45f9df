"""Unusual payloads for `payload=json`, and the values that Spark's `from_json` returns for them.

The values are recorded in `tests/unit/spark/from_json.json` for tests without Spark.
`tests/spark/test_json_payloads.py` compares them with Spark;
`python -m tests.spark.test_json_payloads` writes the recording again.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa

RECORDED = Path(__file__).resolve().parents[1] / "unit/spark/from_json.json"

_TIME = pa.timestamp("us", "UTC")
_INNER = pa.struct([("a", pa.int32()), ("b", pa.string())])
_MAP = pa.map_(pa.string(), pa.int32())

TYPES: dict[str, pa.DataType] = {
    "event": pa.struct([("id", pa.int64()), ("at", _TIME)]),
    "corrupt": pa.struct([("id", pa.int64()), ("at", _TIME), ("_corrupt_record", pa.string())]),
    "text": pa.struct([("id", pa.int64()), ("s", pa.string())]),
    "scalars": pa.struct(
        [
            ("yes", pa.bool_()),
            ("i8", pa.int8()),
            ("i16", pa.int16()),
            ("i32", pa.int32()),
            ("i64", pa.int64()),
            ("f32", pa.float32()),
            ("f64", pa.float64()),
            ("dec", pa.decimal128(10, 2)),
            ("bin", pa.binary()),
            ("day", pa.date32()),
            ("local", pa.timestamp("us")),
        ]
    ),
    "nested": pa.struct(
        [
            ("o", _INNER),
            ("l", pa.list_(pa.int32())),
            ("ol", pa.list_(_INNER)),
            ("m", _MAP),
            ("id", pa.int64()),
        ]
    ),
    "empty": pa.struct([]),
    "corrupt_alone": pa.struct([("_corrupt_record", pa.string())]),
    "empty_within": pa.struct([("e", pa.struct([])), ("el", pa.list_(pa.struct([])))]),
    "pair": pa.struct(
        [("p", pa.struct([("b", pa.float32()), ("c", pa.binary())])), ("s", pa.string())]
    ),
    "texts": pa.map_(pa.string(), pa.string()),
    "times": pa.map_(pa.string(), _TIME),
    "list": pa.list_(pa.int32()),
    "objects": pa.list_(_INNER),
    "map": _MAP,
}
"""Arrow types of the parsed payloads, by their names in the recording."""


def recorded() -> dict[str, dict[bytes, str]]:
    """Return the recorded values: for each type in `TYPES`, a text for each payload.

    The texts have the form of `comparable`. For `scalars` the recording has single JSON values;
    for each of them there is one payload per member of the type.
    """
    found: dict[str, dict[bytes, str]] = defaultdict(dict)
    recording = json.loads(RECORDED.read_text())
    for name, payloads in recording["payloads"].items():
        found[name] = {payload.encode("latin-1"): text for payload, text in payloads.items()}
    nothing = dict.fromkeys(TYPES["scalars"].names, "None")
    for value, members in recording["members"].items():
        for name in nothing:
            shown = nothing | {name: members.get(name, "None")}
            payload = f'{{"{name}": {value}}}'.encode("latin-1")
            text = ", ".join(f"{one!r}: {shown[one]}" for one in shown)
            found["scalars"][payload] = f"{{{text}}}"
    return found


def comparable(values: pa.Array) -> list[str]:
    """Return the `repr` of each value, with times as integers.

    Python's `datetime` cannot represent all times of Spark.
    """
    return [repr(one) for one in values.cast(_as_numbers(values.type)).to_pylist()]


def record(answers: dict[str, dict[bytes, str]]) -> None:
    """Write the values that Spark returned to the recording; `answers` is as from `recorded`."""
    members: dict[str, dict[str, str]] = defaultdict(dict)
    for payload, text in answers["scalars"].items():
        name, _, value = payload.decode("latin-1")[2:-1].partition('": ')
        rest = text.partition(f"{name!r}: ")[2]
        names = TYPES["scalars"].names
        following = names[names.index(name) + 1 :]
        shown = rest.partition(f", {following[0]!r}: ")[0] if following else rest[:-1]
        members[value] |= {} if shown == "None" else {name: shown}
    payloads = {
        name: {payload.decode("latin-1"): text for payload, text in found.items()}
        for name, found in answers.items()
        if name != "scalars"
    }
    text = json.dumps({"members": members, "payloads": payloads}, indent=1)
    RECORDED.write_text(text + "\n")


def _as_numbers(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.int64()
    if pa.types.is_date32(kind):
        return pa.int32()
    if pa.types.is_struct(kind):
        fields: list[tuple[str, Any]] = [(one.name, _as_numbers(one.type)) for one in kind]
        return pa.struct(fields)
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _as_numbers(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_as_numbers(kind.value_type))
    return kind
