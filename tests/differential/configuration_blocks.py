"""Random configuration blocks, with members of every kind in the blocks of nats-server.

A seed determines a file of a few blocks. Most members belong to the block and have a value of their
kind. Some have a value of another kind, and some are unknown.
"""

import random

_WORDS = ("a", '"a b"', "foo.bar", '"foo.*"', '"foo.>"', "''", "'nats://h:1'", "127.0.0.1", "$X")
_INTEGERS = ("0", "1", "-1", "5", "100", "4k", "300", "99999999999")
_BOOLEANS = ("true", "false", "off")
_TIMES = ("'2s'", "'1m'", "'2x'", "5", "-1", "'-2s'", "0")
_SIZES = ("1k", "'1G'", "'1Z'", "0", "-1", "'10MB'")
_FLOATS = ("1", "0.5", "'1s'", "-2", "60.5")
_URLS = (
    *("'nats://h:1'", "'nats-route://u:p@h:2'", "nats://h:1", "' nats://h:1 '", "'nats://h:x'"),
    *("'%zz'", "'h:1'", "'1.2.3.4:5'", "'nats://[::1:5'", "'nats://a b:1'", "'nats://[::1]:6'"),
)
_PERCENTS = ("0", "50", "100", "101", "-1", "'50%'", "'x%'", "'101%'", "0.5", "' 5 %'")
_SUBJECTS = (
    *("foo", '"foo.*"', '"foo.>"', '"foo.$1"', '"a.{{wildcard(1)}}"', '"f oo"', '"a..b"'),
    *('"a.{{partition(3,1)}}"', '"a.{{nofn(1)}}"', '">"', '"$SYS.>"', '"a.*.*"', '"a.>.b"'),
    *('"foo q"', '"foo *.q"', '"a b c"', '"foo  q"'),
)

Kind = str | dict[str, "Kind"] | list["Kind"]
"""The kind of a value: a name, a list of alternatives, or a map of the members of a block."""

_CONNECTION_TYPES = "types"
_PERMISSION: Kind = [
    "subject",
    "subjects",
    {"allow": ["subject", "subjects"], "deny": ["subject", "subjects"]},
]
_PERMISSIONS: Kind = {
    "publish": _PERMISSION,
    "pub": _PERMISSION,
    "import": _PERMISSION,
    "subscribe": _PERMISSION,
    "sub": _PERMISSION,
    "export": _PERMISSION,
    "allow_responses": [
        "boolean",
        {"max": "integer", "max_msgs": "integer", "expires": "time", "ttl": "time"},
    ],
}
_USER: Kind = {
    "user": "word",
    "username": "word",
    "pass": "word",
    "password": "word",
    "permissions": _PERMISSIONS,
    "allowed_connection_types": "types",
    "connection_types": "types",
}
_AUTHORIZATION: Kind = {
    "user": "word",
    "username": "word",
    "pass": "word",
    "password": "word",
    "token": "word",
    "timeout": ["float", "time"],
    "users": "users",
    "default_permissions": _PERMISSIONS,
}
_JETSTREAM: Kind = {
    "enabled": "boolean",
    "store_dir": "word",
    "max_mem": "size",
    "max_memory_store": "size",
    "max_file": "size",
    "domain": "word",
    "strict": "boolean",
    "sync_interval": ["time", "word"],
    "unique_tag": "word",
    "extension_hint": "word",
    "max_outstanding_catchup": "size",
    "max_buffered_size": "size",
    "max_buffered_msgs": "integer",
    "request_queue_limit": "integer",
    "info_queue_limit": "integer",
    "limits": {
        "max_ack_pending": "integer",
        "max_ha_assets": "integer",
        "max_request_batch": "integer",
        "duplicate_window": "time",
        "batch": {
            "max_inflight_per_stream": "integer",
            "max_inflight_total": "integer",
            "max_msgs": "integer",
            "timeout": "time",
        },
    },
}
_WEBSOCKET: Kind = {
    "port": "integer",
    "listen": ["integer", "word"],
    "host": "word",
    "advertise": "word",
    "no_tls": "boolean",
    "same_origin": "boolean",
    "allowed_origins": ["word", "words"],
    "handshake_timeout": "time",
    "compression": "boolean",
    "authorization": {
        "user": "word",
        "pass": "word",
        "token": "word",
        "timeout": "float",
    },
    "no_auth_user": "word",
    "token_cookie": "word",
    "user_cookie": "word",
    "pass_cookie": "word",
    "ping_interval": "time",
    "headers": "strings",
}
_CLUSTER: Kind = {
    "name": "word",
    "port": "integer",
    "listen": ["integer", "word"],
    "host": "word",
    "cluster_advertise": "word",
    "no_advertise": "boolean",
    "connect_retries": "integer",
    "connect_backoff": "boolean",
    "pool_size": "integer",
    "accounts": "words",
    "compression": [
        "word",
        "boolean",
        {"mode": "word", "rtt_thresholds": "times", "rtts": "times"},
    ],
    "ping_interval": "time",
    "ping_max": "integer",
    "write_deadline": "time",
    "write_timeout": "word",
    "routes": ["words", "urls"],
    "authorization": {
        "user": "word",
        "password": "word",
        "timeout": ["float", "time"],
        "token": "word",
        "users": "users",
        "permissions": _PERMISSIONS,
    },
}
_GATEWAY: Kind = {
    "name": "word",
    "port": "integer",
    "listen": ["integer", "word"],
    "host": "word",
    "advertise": "word",
    "connect_retries": "integer",
    "connect_backoff": "boolean",
    "reject_unknown": "boolean",
    "reject_unknown_cluster": "boolean",
    "write_deadline": "time",
    "authorization": {"user": "word", "password": "word", "timeout": "float"},
}
_LEAFNODES: Kind = {
    "port": "integer",
    "listen": ["integer", "word"],
    "host": "word",
    "advertise": "word",
    "reconnect": ["integer", "time"],
    "no_advertise": "boolean",
    "min_version": "word",
    "isolate_leafnode_interest": "boolean",
    "compression": ["word", "boolean"],
    "write_deadline": "time",
    "authorization": {"user": "word", "password": "word", "timeout": "float"},
}
_MQTT: Kind = {
    "port": "integer",
    "listen": ["integer", "word"],
    "host": "word",
    "no_auth_user": "word",
    "ack_wait": "time",
    "max_ack_pending": "integer",
    "js_domain": "word",
    "js_api_timeout": "time",
    "stream_replicas": "integer",
    "consumer_replicas": "integer",
    "consumer_memory_storage": "boolean",
    "consumer_inactive_threshold": "time",
    "reject_qos2_publish": "boolean",
    "downgrade_qos2_subscribe": "boolean",
    "authorization": {"user": "word", "password": "word", "timeout": "float"},
}
_ACCOUNTS: Kind = {
    "A": {
        "jetstream": "boolean",
        "users": "users",
        "nkey": "word",
        "default_permissions": _PERMISSIONS,
        "mappings": "mappings",
        "limits": {"max_connections": "integer", "max_payload": "size"},
    },
    "B": {},
}
BLOCKS: dict[str, Kind] = {
    "authorization": _AUTHORIZATION,
    "jetstream": _JETSTREAM,
    "websocket": _WEBSOCKET,
    "mappings": "mappings",
    "cluster": _CLUSTER,
    "gateway": _GATEWAY,
    "leafnodes": _LEAFNODES,
    "mqtt": _MQTT,
    "accounts": _ACCOUNTS,
}
_SERVED = ("authorization", "jetstream", "websocket", "mappings", "cluster")

_SCALARS: dict[str, tuple[str, ...]] = {
    "word": _WORDS,
    "integer": _INTEGERS,
    "boolean": _BOOLEANS,
    "time": _TIMES,
    "size": _SIZES,
    "float": _FLOATS,
    "subject": _SUBJECTS,
    "url": _URLS,
}
_ODD = ("[]", "{}", "true", "5", "1.5", "word", "2026-01-02T15:04:05Z")


class _Blocks:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def text(self) -> str:
        """Return a file, mostly with one block."""
        chance = self._random
        found = ["X: y\n"] if chance.random() < 0.2 else []
        for _ in range(1 if chance.random() < 0.8 else 2):
            names = _SERVED if chance.random() < 0.6 else tuple(BLOCKS)
            name = chance.choice(names)
            found.append(self._member(name, BLOCKS[name]))
        return "".join(found)

    def _member(self, name: str, kind: Kind) -> str:
        return f"{name}: {self._value(kind)}\n"

    def _value(self, kind: Kind) -> str:
        chance = self._random
        if kind != "percent" and chance.random() < 0.06:
            return chance.choice(_ODD)
        if isinstance(kind, list):
            return self._value(chance.choice(kind))
        if isinstance(kind, dict):
            return self._block(kind)
        if kind in _SCALARS:
            usual = _SCALARS[kind]
            return chance.choice(usual[:3] if chance.random() < 0.6 else usual)
        made: str = getattr(self, f"_{kind}")()
        return made

    def _block(self, kind: dict[str, Kind]) -> str:
        chance = self._random
        names = chance.sample(sorted(kind), min(len(kind), chance.randint(0, 3)))
        members = [self._member(name, kind[name]) for name in names]
        if chance.random() < 0.08:
            members.append(f"{chance.choice(('bogus', 'Unknown'))}: {chance.choice(_ODD)}\n")
        chance.shuffle(members)
        return "{\n" + "".join(members) + "}"

    def _list(self, kind: Kind) -> str:
        return "[" + ", ".join(self._value(kind) for _ in range(self._random.randint(0, 2))) + "]"

    def _words(self) -> str:
        return self._list("word")

    def _urls(self) -> str:
        return self._list("url")

    def _times(self) -> str:
        return self._list("time")

    def _subjects(self) -> str:
        return self._list("subject")

    def _users(self) -> str:
        return self._list(_USER)

    def _types(self) -> str:
        kinds = ("STANDARD", "websocket", "MQTT", "LEAFNODE", "bogus", "5")
        return "[" + ", ".join(self._random.choices(kinds, k=self._random.randint(0, 2))) + "]"

    def _strings(self) -> str:
        return self._block({"X-A": "word", "X-B": "word"})

    def _mappings(self) -> str:
        chance = self._random
        target: Kind = {"destination": "subject", "weight": "percent"}
        members: list[str] = []
        for _ in range(chance.randint(0, 2)):
            kind = chance.choice(("one", "target", "targets"))
            value = {
                "one": lambda: self._value("subject"),
                "target": lambda: self._value(target),
                "targets": lambda: self._list(target),
            }[kind]()
            members.append(f"{chance.choice(_SUBJECTS)}: {value}\n")
        return "{\n" + "".join(members) + "}"

    def _percent(self) -> str:
        return self._random.choice(_PERCENTS)


def blocks(seed: int) -> str:
    """Return the file of a seed."""
    return _Blocks(seed).text()
