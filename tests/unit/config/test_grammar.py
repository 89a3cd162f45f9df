"""The grammar of configuration files, value by value."""

# Subject: configuration

from datetime import UTC, datetime

import pytest

from core.config.grammar import GrammarError, parse, plain


def no_includes(path: str, including: str) -> tuple[str, str]:
    raise GrammarError(f"no file {path}")


def values(text: str, **environment: str) -> object:
    return plain(parse(text, "f", no_includes, environment))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("-5", -5),
        ("1k", 1000),
        ("1kb", 1024),
        ("2Ki", 2048),
        ("3MiB", 3 * 1024**2),
        ("1m", 1000**2),
        ("4g", 4 * 1000**3),
        ("1.5", 1.5),
        ("yes", True),
        ("OFF", False),
        ("127.0.0.1:4222", "127.0.0.1:4222"),
        ("1.2.3-4:5", "1.2.3-4:5"),
        ("-9223372036854775808", -(1 << 63)),
        ("99e", 99 * 10**18 - (5 << 64)),
        ("5s", "5s"),
        ("1m5", "1m5"),
        ("1'", "1'"),
        ("x'", "x"),
        ('"\\xc3\\xa9"', "é"),
        ("nats://a:b@c:1", "nats://a:b@c:1"),
        ("'a\\tb'", "a\\tb"),
        ('"a\\tb\\x41"', "a\tbA"),
        ("a\\x41", "aA"),
        ("$2a$11$abc", "$2a$11$abc"),
        ("2026-01-02T15:04:05Z", datetime(2026, 1, 2, 15, 4, 5, tzinfo=UTC)),
        ("(\n one\n two\n)", "\n one\n two\n"),
        ("[1, a\n 'b' # c\n]", [1, "a", "b"]),
        ("{x: 1, y {z = 2}}", {"x": 1, "y": {"z": 2}}),
    ],
)
def test_a_value_is_read(text: str, value: object) -> None:
    assert values(f"k: {text}\n") == {"k": value}


def test_separators_terminators_and_comments_are_free() -> None:
    text = "{ a = 1; b: 2, c 3 // x\n# y\n'd e': 4\n f { g: 5 } }"

    assert values(text) == {"a": 1, "b": 2, "c": 3, "d e": 4, "f": {"g": 5}}


def test_a_variable_is_the_nearest_key_then_the_environment() -> None:
    text = "x: 1\na { x: 2\n b { y: $x } }\nz: $x\ne: $HOST_PORT\nf: $TEXT"

    found = values(text, HOST_PORT="4222", TEXT="abc")

    assert found == {"x": 1, "a": {"x": 2, "b": {"y": 2}}, "z": 1, "e": 4222, "f": "abc"}


def test_a_variable_in_quotes_is_text_and_a_cycle_is_an_error() -> None:
    assert values('a: "$X"', X="1") == {"a": "$X"}
    with pytest.raises(GrammarError, match="cycle"):
        values("a: $X", X="$X")


def test_a_file_that_includes_itself_is_refused() -> None:
    files = {"a": "include ./b", "./b": "x: 1\ninclude a"}

    with pytest.raises(GrammarError, match=r"include file './b', .* 'a', it includes itself"):
        parse("include ./b", "a", lambda path, _: (path, files[path]), {})


def test_an_include_adds_the_keys_of_another_file_where_it_stands() -> None:
    files = {"one": "b: 2\ninclude two\n", "two": "c: 3"}

    found = parse("a { include one }", "f", lambda path, _: (path, files[path]), {})

    assert plain(found) == {"a": {"b": 2, "c": 3}}
    assert found["a"].value["c"].place == "two:1:0"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a\n{\nb 1\n}", {"a": {"b": 1}}),
        ("a\n\n=1", {"a": 1}),
        ("a {b\n:\n1}", {"a": {"b": 1}}),
        ("a 1\rb 2", {"a": 1, "b": 2}),
        ("{a 1\nb 2};c 3", {"a": 1, "b": 2, ";c": 3}),
        ("{{}};c 3", {";c": 3}),
        ("a: 1 / \nb 2", {"a": 1, "b": 2}),
        ("a {b 1 / c 2}", {"a": {"b": 1, "c": 2}}),
        ("a {,b 1,,c 2}", {"a": {",b": 1, ",c": 2}}),
        ("a: [1] ]", {"a": ["1]"]}),
        ("a: [-1, 1k]", {"a": [-1, "1k"]}),
        ("a: 1kbb", {}),
        ("a {b:}\nc 1", {"b": {}, "c": 1}),
        ("x {a {b:}}", {"a": {"b": {}}}),
        ("a: [{b:}]", {"b": [{}]}),
        ("a 1\n'", {"a": 1}),
        ("a: [ '", {}),
        ("a 1\n}", {"a": 1}),
    ],
)
def test_odd_files_are_read_as_nats_server_reads_them(text: str, found: object) -> None:
    assert values(text) == found


@pytest.mark.parametrize(
    ("text", "wording"),
    [
        ("a: 1..2", "line 1: 'Floats must have a digit after the '.', but got '.' instead.'"),
        ("a: 1.5k", "line 1: 'Expected a top-level value to end .* but got 'k' instead.'"),
        ("{a: 1", "line 1: 'Expected a block-level value to end"),
        ("a:\n{}", "line 2: 'Expected value but found new line'"),
        ("a {b}", "line 1: 'Unexpected EOF processing map key.'"),
        ("a: [1]", "line 1: 'Expected an array value terminator"),
        ("a", r"config is invalid \(f:1:1\)"),
        ("a " + "[" * 3000, "nested too deeply"),
    ],
)
def test_unreadable_files_are_reported_in_the_words_of_nats_server(text: str, wording: str) -> None:
    with pytest.raises(GrammarError, match=wording):
        values(text)
