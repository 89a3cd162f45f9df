"""CONNECT is read leniently where the reference server is lenient, and no further."""

# Subject: protocol

import json

import pytest

from core.errors import ProtocolError
from core.protocol.connect import (
    Info,
    decode_connect,
    encode_info,
)


def test_the_defaults_are_those_of_an_empty_connect() -> None:
    connect = decode_connect(b"{}")

    assert (connect.verbose, connect.pedantic, connect.echo) == (True, True, True)
    assert (connect.headers, connect.no_responders, connect.protocol) == (False, False, 0)
    assert decode_connect(b"null") == connect


@pytest.mark.parametrize(
    "body",
    [
        b'{"Verbose":false}',
        b'{"verbose":true,"verbose":false}',
        b'{"verbose":false,"name":null,"unknown":{"a":[1]}}',
        b'{"verbose":false,"lang":"\xff\xfe"}',
    ],
)
def test_accepted_connects(body: bytes) -> None:
    assert decode_connect(body).verbose is False


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"1",
        b"{",
        b'{"verbose":"x"}',
        b'{"verbose":false} x',
        b'{"protocol":1.0}',
        b'{"name":1}',
        b"[" * 2000,
        b'{"x":' + b"[" * 1500 + b"]" * 1500 + b"}",
    ],
)
def test_connects_closed_without_a_text(body: bytes) -> None:
    with pytest.raises(ProtocolError) as caught:
        decode_connect(body)

    assert caught.value.text == ""


def test_half_a_character_is_replaced_as_javascript_may_write_it() -> None:
    body = rb'{"name":"a\ud800b\udc00\ud83d\ude00","lang":"\\ud800\\\udfff\u0041","version":"\"\/"}'

    found = decode_connect(body)

    assert found.name == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}\N{GRINNING FACE}"
    assert found.lang == "\\ud800\\\N{REPLACEMENT CHARACTER}A"
    assert found.version == '"/'


def test_connects_closed_with_a_text() -> None:
    with pytest.raises(ProtocolError, match=r"^invalid client protocol$"):
        decode_connect(b'{"protocol":2}')
    with pytest.raises(ProtocolError, match=r"^no responders requires headers support$"):
        decode_connect(b'{"no_responders":true}')


def test_a_second_connect_changes_only_what_it_names() -> None:
    first = decode_connect(b'{"verbose":false,"protocol":1,"pass":"secret"}')

    second = decode_connect(b'{"pedantic":false}', first)

    assert (second.verbose, second.pedantic, second.protocol) == (False, False, 1)
    assert second.password == "secret"


def test_info_leaves_out_what_is_not_set() -> None:
    info = Info(server_id="N", version="2.15.1", proto=1, port=4222, headers=True)

    assert list(json.loads(encode_info(info))) == [
        "server_id",
        "version",
        "proto",
        "port",
        "headers",
    ]
