"""Which pages of browsers may read the monitoring port, over its socket."""

# Subject: configuration, monitoring

import asyncio

import pytest

from core.runtime.clock import SystemClock
from dropin import monitoring_port
from dropin.config.options import Options
from dropin.monitoring_access import Access
from dropin.monitoring_port import Monitor


def _head(options: Options, *lines: str, then: Options | None = None) -> list[str]:
    """The head of an answer to a request with these lines, after a reload with other options."""

    async def run() -> bytes:
        monitor = Monitor(options, SystemClock())
        await monitor.start()
        if then is not None:
            monitor.reloaded(then)
        reader, writer = await asyncio.open_connection("127.0.0.1", monitor.port)
        head = "\r\n".join(["GET /healthz HTTP/1.1", "Connection: close", *lines, "", ""])
        writer.write(head.encode())
        async with asyncio.timeout(30):
            answer = await reader.read()
        writer.close()
        await monitor.stop()
        return answer

    return asyncio.run(run()).decode().partition("\r\n\r\n")[0].split("\r\n")


def _options(*, hosts: tuple[str, ...] = (), origins: tuple[str, ...] = ()) -> Options:
    return Options(
        http_host="127.0.0.1",
        http_port=-1,
        http_allowed_hosts=hosts,
        http_allowed_origins=origins,
    )


@pytest.mark.parametrize(
    ("host", "hosts", "is_answered"),
    [
        ("localhost:8222", (), True),
        ("127.0.0.1", (), True),
        ("[::1]:8222", (), True),
        ("evil.example", (), False),
        ("127.0.0.1.evil.example", (), False),
        ("evil.example:8222", ("monitor.example",), False),
        ("Monitor.example:8222", ("monitor.example",), True),
        ("evil.example", ("*",), True),
        ("localhost\r\nHost: evil.example", (), False),
        ("evil.example\r\nHost: localhost", (), False),
        ("local host", (), False),
    ],
)
def test_a_name_that_is_not_ours_is_refused(
    host: str, hosts: tuple[str, ...], is_answered: bool
) -> None:
    status = _head(_options(hosts=hosts), f"Host: {host}")[0]

    assert status == ("HTTP/1.1 503 Service Unavailable" if is_answered else _WRONG)


_WRONG = "HTTP/1.1 421 Misdirected Request"


def test_a_request_without_a_name_comes_from_no_browser() -> None:
    assert _head(_options())[0] != _WRONG


def test_a_port_open_to_other_machines_accepts_any_host_name() -> None:
    assert Access(_options(), "0.0.0.0").knows("any.example")
    assert not Access(_options(hosts=("one.example",)), "0.0.0.0").knows("any.example")


@pytest.mark.parametrize(
    ("origins", "told"),
    [
        ((), []),
        (("*",), ["Access-Control-Allow-Origin: *"]),
        (
            ("https://a.example",),
            ["Vary: Origin", "Access-Control-Allow-Origin: https://a.example"],
        ),
        (("https://b.example",), ["Vary: Origin"]),
        (("https://a.example.evil", "null"), ["Vary: Origin"]),
    ],
)
def test_a_page_of_another_origin_reads_what_is_allowed(
    origins: tuple[str, ...], told: list[str]
) -> None:
    lines = _head(_options(origins=origins), "Host: localhost", "Origin: https://a.example")

    assert [line for line in lines if line.startswith(("Vary", "Access-Control"))] == told
    assert "X-Content-Type-Options: nosniff" in lines


@pytest.mark.parametrize("begun", [b"", b"GET /healthz HTTP/1.1\r\nHost: "])
def test_a_request_that_does_not_end_is_closed(
    monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:
    async def run() -> bytes:
        monitor = Monitor(_options(), SystemClock())
        await monitor.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", monitor.port)
        writer.write(begun)
        async with asyncio.timeout(30):
            answer = await reader.read()
        writer.close()
        await monitor.stop()
        return answer

    monkeypatch.setattr(monitoring_port, "_HEAD_S", 0.05)
    assert asyncio.run(run()) == b""


def test_a_reload_changes_the_users_that_may_read() -> None:
    allowed = _options(hosts=("evil.example",), origins=("https://a.example",))
    lines = _head(_options(), "Host: evil.example", "Origin: https://a.example", then=allowed)

    assert lines[0] != _WRONG
    assert "Access-Control-Allow-Origin: https://a.example" in lines


def test_one_request_of_all_connections_is_answered_in_a_tick(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when they came together."""
    asked = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    answered = most = 0

    async def answer(_: Monitor, head: str, writer: asyncio.StreamWriter) -> bool:
        nonlocal answered
        answered += 1
        writer.write(b".")
        return True

    async def read(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(asked * 50)
        async with asyncio.timeout(30):
            got = await reader.readexactly(50)
        writer.close()
        return got

    async def run() -> list[bytes]:
        nonlocal most
        monitor = Monitor(_options(), SystemClock())
        await monitor.start()
        reading = asyncio.gather(*(read(monitor.port) for _ in range(5)))
        while not reading.done():
            before = answered
            await asyncio.sleep(0)
            most = max(most, answered - before)
        await monitor.stop()
        return await reading

    monkeypatch.setattr(Monitor, "_answer", answer)
    assert asyncio.run(run()) == [b"." * 50] * 5
    assert most == 1
