"""The digest of a configuration file, equal to nats-server's.

It covers the values, not their spelling in the file.
"""

import hashlib
import json
from datetime import datetime
from typing import Any

from core.config.grammar import Item, plain

_ESCAPED = str.maketrans({letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"})


def digest(top: dict[str, Item]) -> str:
    """Return `sha256:...` over the values of a configuration, as Go encodes them in JSON."""
    shown = _json(plain(top)) + "\n"
    return "sha256:" + hashlib.sha256(shown.encode(errors="replace")).hexdigest()


def _json(value: Any) -> str:
    if isinstance(value, dict):
        members = (f"{_json(key)}:{_json(value[key])}" for key in sorted(value))
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    if isinstance(value, datetime):
        return json.dumps(value.strftime("%Y-%m-%dT%H:%M:%SZ"))
    if isinstance(value, float):
        return _number(value)
    return json.dumps(value, ensure_ascii=False).translate(_ESCAPED)


def _number(value: float) -> str:
    from decimal import Decimal  # rarely needed

    if value == 0 or 1e-6 <= abs(value) < 1e21:
        shown = f"{Decimal(repr(value)):f}"
        return shown.rstrip("0").rstrip(".") if "." in shown else shown
    digits, _, power = repr(value).partition("e")
    return f"{digits.removesuffix('.0')}e{int(power):+d}"
