"""The reader of HTTP/1.1 against a plain model of RFC 9112, whatever comes in whatever pieces."""

# Subject: HTTP framing

import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.http.problems import Problem
from gateway.http.request_reader import RequestReader
from tests.property.http_model import Request, read_all

LINES = (
    b"GET / HTTP/1.1",
    b"POST /v1/a?b=c HTTP/1.1",
    b"DELETE /a#b HTTP/1.0",
    b"G\xe9T / HTTP/1.1",
    b"GET  / HTTP/1.1",
    b"GET /\t HTTP/1.1",
    b"GET /",
    b"PRI * HTTP/2.0",
    b" GET / HTTP/1.1",
)
FIELDS = (
    b"Host: a",
    b"A:\t b c \t",
    b"A:",
    b"A: \xff",
    b"Content-Length: 0",
    b"Content-Length: 3",
    b"Content-Length:5 ",
    b"Content-Length: +3",
    b"Content-Length: 3, 3",
    b"Content-Length: 03",
    b"Content-Length: 0x3",
    b"Content-Length: 1234567890123456789",
    b"Content-Length : 3",
    b"Content-Length",
    b": a",
    b" folded",
    b"A: b\x00",
    b"A: b\rc",
    b"A: b\nc",
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding:\tCHUNKED ",
    b"Transfer-Encoding: gzip, chunked",
    b"Transfer-Encoding: chunked, chunked",
    b"Transfer-Encoding: chunked, gzip",
    b"Transfer-Encoding: ",
    b"Transfer-Encoding:\x0bchunked",
    b"Connection: Upgrade, close",
    b"Upgrade: h2c",
    b"Expect: 100-continue",
)
PIECES = (
    b"",
    b"abc",
    b"hello",
    b"3\r\nabc\r\n",
    b'3;x="y" ;z\r\nabc\r\n',
    b"3 ;x\r\nabc\r\n",
    b"3 \r\nabc\r\n",
    b"0003\r\nabc\r\n",
    b"5\r\nabc\r\n",
    b"+3\r\nabc\r\n",
    b"0x3\r\nabc\r\n",
    b"3\nabc\r\n",
    b"3\r\nabc\n",
    b"FFFFFFFFFFFFFFFF\r\n",
    b"0\r\n\r\n",
    b"0\r\nConnection: close\r\nX : y\r\n\r\n",
    b"0\r\nConnection: close\r\nX: y\r\n\r\n",
    b"0;a\r\nX: \x01\r\n\r\n",
    b"000\r\nX: y\r\n",
    b"\r\n",
    b"\r",
)
ENDS = st.sampled_from((b"\r\n",) * 30 + (b"\n", b"\r", b"\r\r\n"))
CHUNKS = (b"3\r\nabc\r\n", b'4;x="y" ;z\r\nGET \r\n', b"0A ;x\r\n0123456789\r\n")
TRAILERS = (b"", b"Connection: close\r\n", b"Content-Length: 3\r\nX:\t\r\n")


@st.composite
def odd_requests(draw: st.DrawFn) -> bytes:
    """Parts of requests in the usual order."""
    line = draw(st.sampled_from((LINES[1],) * 8 + LINES))
    usual = st.sampled_from((b"Host: a", b"Content-Length: 3", b"Transfer-Encoding: chunked"))
    fields = draw(st.lists(usual | st.sampled_from(FIELDS), max_size=3))
    pieces = draw(st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=4))
    made = b"".join(each + draw(ENDS) for each in (line, *fields))
    return bytes(made + draw(ENDS) + b"".join(pieces))


@st.composite
def whole_requests(draw: st.DrawFn) -> bytes:
    """A request with the body that it announces, which may look like another request."""
    line = draw(st.sampled_from(LINES[:2]))
    fields = draw(st.lists(st.sampled_from((*FIELDS[:4], *FIELDS[-3:])), max_size=3))
    body = draw(st.sampled_from((b"", b"abc", b"DELETE / HTTP/1.1\r\n\r\n", b"\r\n")))
    if draw(st.booleans()):
        fields.append(b"content-length: %d" % len(body))
    else:
        fields.append(draw(st.sampled_from(FIELDS[19:21])))
        body = b"".join(draw(st.lists(st.sampled_from(CHUNKS), max_size=3)))
        body += b"0\r\n" + draw(st.sampled_from(TRAILERS)) + b"\r\n"
    return b"\r\n".join([line, *fields, b"", body])


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Requests in a row, mostly whole; or with one byte replaced, removed or added."""
    mostly = st.one_of(*[whole_requests()] * 4, odd_requests())
    data = b"".join(draw(st.lists(mostly, min_size=1, max_size=4)))
    if draw(st.booleans()):
        return data
    place = draw(st.integers(0, len(data)))
    added = draw(st.sampled_from((b"", b"\r", b"\n", b" ", b"0", b":", b"\x00", b";")))
    return bytes(data[:place]) + added + data[place + draw(st.integers(0, 1)) :]


def read(data: bytes, cuts: list[int]) -> tuple[list[Request], str]:
    """What the reader finds in the pieces between these places."""
    reader = RequestReader(64 * 1024)
    found: list[Request] = []
    head, body = None, b""
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    try:
        for begin, end in itertools.pairwise(places):
            reader.feed(data[begin:end])
            while True:
                if head is None and (head := reader.read_head()) is None:
                    break
                piece, is_complete = reader.read_body()
                body += piece
                if not is_complete:
                    break
                target = head.path + (b"?" + head.query if head.query else b"")
                made = Request(head.method.encode(), target, tuple(head.headers), body)
                found.append(made)
                head, body = None, b""
    except Problem as problem:
        return found, str(problem.status)
    return found, "unfinished" if head is not None or reader.held else "whole"


@given(streams(), st.lists(st.integers(0, 300), max_size=6))
@example(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nConnection: close\r\n\r\n", [])
def test_requests_are_those_of_the_model(data: bytes, cuts: list[int]) -> None:
    expected, end = read_all(data)

    found, found_end = read(data, cuts)

    assert found == expected
    if end == "unfinished":
        # What cannot become a request is refused before it is whole.
        assert found_end in ("unfinished", "400")
    else:
        assert found_end == end


ODD = [
    *(b"\r\n".join([line, b"", b"GET / HTTP/1.1", b"", b""]) for line in LINES),
    *(
        b"\r\n".join([LINES[1], *fields, b"", b"abc"])
        for each in FIELDS
        for fields in ([each], [each, b"Content-Length: 3"], [FIELDS[19], each], [each, each])
    ),
    *(b"\r\n".join([LINES[1], FIELDS[19], b"", each + b"0\r\n\r\n"]) for each in PIECES),
]


def test_each_odd_part_is_read_as_by_the_model() -> None:
    for data in ODD:
        expected, end = read_all(data)
        for found, found_end in (read(data, []), read(data, list(range(len(data))))):
            assert found == expected, data
            assert found_end == end or (end, found_end) == ("unfinished", "400"), data


@given(streams())
def test_pieces_of_a_byte_are_read_like_the_whole(data: bytes) -> None:
    found, end = read(data, [])

    in_bytes, end_in_bytes = read(data, list(range(len(data))))

    assert in_bytes == found
    assert end_in_bytes == end


@pytest.mark.parametrize("data", [b"x" * 70_000, b"GET /" + b"x" * 70_000, b"\r\n" * 40_000])
def test_malformed_requests_are_refused(data: bytes) -> None:
    assert read(data, list(range(0, len(data), 1000)))[1] in ("400", "414", "431")
