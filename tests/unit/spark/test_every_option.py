"""Every option with values of every wrong kind: a value, or a message that a person can use."""

# Subject: Spark rows

import re

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")

from pyspark_jetstream.options import KNOWN
from pyspark_jetstream.options import WRITE as WRITER
from pyspark_jetstream.queries import READ, READ_STREAM, WRITE, WRITE_STREAM, Query
from pyspark_jetstream.values import InvalidOption

SECRET = "hunter2"
_SECRETS = ("dsn", "auth.token", "auth.user", "auth.password", "auth.nkey", "auth.creds")

LEAST = {
    READ: {"dsn": "host=db", "stream": "S"},
    READ_STREAM: {"servers": "nats://h:4222", "stream": "S"},
    WRITE: {"servers": "nats://h:4222", "subject": "s"},
    WRITE_STREAM: {"servers": "nats://h:4222", "subject": "s"},
}
WITH = {
    "jsonSchema": {"payload": "json"},
    "jsonMode": {"payload": "json", "jsonSchema": "a int"},
    "columnNameOfCorruptRecord": {"payload": "json", "jsonSchema": "a int"},
    "timeZone": {"payload": "json", "jsonSchema": "a int"},
    "consumer": {"mode": "consumer"},
}
"""Other options that it takes for an option to be looked at."""

VALUES = [
    "",
    " ",
    "0",
    "-1",
    "1.5",
    "1e3",
    "7",
    "٣",
    "9" * 19,
    "9" * 30,
    "9" * 400,
    "true",
    "TRUE",
    "maybe",
    "null",
    "abc",
    "a b",
    "a,,b",
    ",",
    "[",
    "[]",
    "[1]",
    '["a"]',
    "{",
    "{}",
    '{"S": -1}',
    '{"S": "x"}',
    '{"OTHER": 1}',
    "a.b",
    "a..b",
    ".a",
    "a.>",
    "*",
    ">",
    "a\x00b",
    "a\nb",
    "/no/such/file",
    "env:",
    "file:",
    "64MiB",
    "1 GiB",
    "-5s",
    "5s",
    "5 weeks",
    "9" * 30 + "h",
    "seq:",
    "seq:-1",
    "seq:7",
    "seq:" + "9" * 20,
    "time:2026",
    "time:0001-01-01T00:00:00Z",
    "time:9999-12-31T23:59:59Z",
    "latest",
    "Earliest",
    "lastPerSubject",
    "http://host:4222",
    "nats://",
    "nats://h:0",
    "nats://h:99999",
    "nats://h:x",
    "nats://h/a",
    f"nats://ann:{SECRET}@h",
    f"nats://{SECRET}@h",
    "nats://[::1",
    "nats://h:4222,tls://i",
    "bigint",
    "a foo",
    "a int, b",
    "a int b int",
    "struct<a int",
    "array<>",
    "map<int, string>",
    "a decimal(50,2)",
    "a int, a int",
    "a int,",
    "`a b` int",
    "DROPMALFORMED",
    "FAILFAST",
    "UTC",
    "Mars/Phobos",
    "a" * 300,
    f"postgresql://u:{SECRET}@h/d",
    f"host=h password={SECRET}",
]

OPTIONS = [(use, name) for use in (READ, READ_STREAM) for name in KNOWN] + [
    (use, name) for use in (WRITE, WRITE_STREAM) for name in dict.fromkeys((*KNOWN, *WRITER))
]


@pytest.mark.parametrize(("use", "name"), OPTIONS)
def test_a_value_is_taken_or_named_with_what_is_expected(use: str, name: str) -> None:
    for value in VALUES:
        text = told(use, {**LEAST[use], **WITH.get(name, {}), name: value})
        if text is None:
            continue
        assert text.isprintable(), text
        assert re.match(r"option '[\w.]+( or servers)?' is .*, expected ", text), text
        assert len(text) < 600, text
        assert SECRET not in text, text
        if name in _SECRETS and len(value) > 4:
            assert value not in text, text


def told(use: str, options: dict[str, str]) -> str | None:
    """What is said of the options of a query; None when they are taken."""
    try:
        Query(use, options).checked()
    except InvalidOption as error:
        return str(error)
    return None


@pytest.mark.parametrize(
    ("use", "options", "expected"),
    [
        (READ, {"jsonSchema": "bigint", "payload": "json"}, "the type 'bigint' alone"),
        (READ, {"jsonSchema": "a foo", "payload": "json"}, "'foo' as the type of field a"),
        (
            READ,
            {"jsonSchema": f"a {'array<' * 2000}int{'>' * 2000}", "payload": "json"},
            "types nested more deeply than 100",
        ),
        (READ, {"servers": "http://h:4222"}, "'servers' is 'http://h:4222', expected nats://host"),
        (READ, {"dsn": ""}, "'dsn or servers' is not set, expected dsn, PostgreSQL's"),
        (READ, {"maxMessagesPerTrigger": "5"}, "to be left out here: it is an option of spark.re"),
        (READ, {"mode": "consumer"}, "log here: a consumer is read by spark.readStream"),
        (READ_STREAM, {"asOf": "latest"}, "to be left out here: it is an option of spark.read"),
        (READ, {"delivery": "transactional"}, "to be left out here: it is for writing"),
        (WRITE, {"payload": "json"}, "'payload' is set, expected to be left out here"),
        (WRITE, {"txnVersion": "1"}, "'txnAppId' is not set, expected a name"),
        (READ, {"stream": "a.b"}, "'stream' is 'a.b', expected the name of a stream, without"),
        (READ, {"startingPosition": "seq:9223372036854775808"}, "expected one of earliest"),
        (READ, {"timeout": f"nats://u:{SECRET}@h"}, "'timeout' is 'nats://***@h', expected"),
    ],
)
def test_mistakes_that_users_made_are_named(
    use: str, options: dict[str, str], expected: str
) -> None:
    assert expected in (told(use, {**LEAST[use], **options}) or "")
