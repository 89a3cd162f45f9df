"""The official JavaScript client in a real headless Chromium, against both servers."""

# Subject: WebSocket

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.chromium import Pages, bundled, chromium
from tests.support.dropin import NAMES, DropIn

_HERE = Path(__file__).parent
_SCRIPTS = ("core", "publish", "pull", "kv", "objects")
_AGREED = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
_USERS = "authorization { users: [{user: ann, password: secret}, {user: bob, password: other}] }\n"


@pytest.fixture(scope="session")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bundles."""
    chromium()
    into = tmp_path_factory.mktemp("bundles")
    paths = [_HERE / "node" / f"{name}.mjs" for name in _SCRIPTS]
    bundled(_HERE / "browser/bundle.cjs", paths, into)
    bundled(_HERE / "browser/bundle.cjs", [_HERE / "browser/doors.mjs"], into)
    return into


@pytest.fixture
def pages(scripts: Path) -> Iterator[Pages]:
    with Pages(_HERE / "browser/page.html", scripts) as served:
        yield served


@pytest.mark.parametrize("addresses", ["websocket"], indirect=True)
def test_every_feature(pages: Pages, addresses: list[str]) -> None:
    pages.jobs = [
        {"script": script, "address": address} for script in _SCRIPTS for address in addresses
    ]
    found = [job["steps"] for job in pages.run()]
    for script, ours, theirs in zip(_SCRIPTS, found[::2], found[1::2], strict=True):
        assert len(theirs) > 20, script
        assert ours == theirs, script


def _page(name: str, where: Path, top: str, block: str) -> DropIn:
    config = where / f"{name}-{len(list(where.iterdir()))}.conf"
    websocket = f"websocket {{ host: 127.0.0.1, port: -1, no_tls: true, {block} }}\n"
    config.write_text(f"host: 127.0.0.1\nport: -1\n{top}{websocket}")
    return DropIn(name, "-c", str(config))


@pytest.mark.parametrize("name", NAMES)
def test_doors(pages: Pages, name: str, tmp_path: Path) -> None:
    pages.cookies = {"who": "ann", "proof": "secret"}
    origins = f'["http://x.example", "{pages.origin}"]'
    blocks = {
        "open": ("", "compression: false"),
        "compressed": ("", f"compression: true, allowed_origins: {origins}"),
        "other origins": ("", 'allowed_origins: ["http://x.example"]'),
        "same origin": ("", "same_origin: true"),
        "cookies": (_USERS, "user_cookie: who, pass_cookie: proof"),
        "stranger": (_USERS, "no_auth_user: bob"),
        "token": ("", "authorization { token: t }"),
    }
    servers = {door: _page(name, tmp_path, *block) for door, block in blocks.items()}
    try:
        at = {door: server.ports()["websocket"][0] for door, server in servers.items()}
        doors = [{"name": door, "address": address} for door, address in at.items()]
        doors += [
            {"name": "cookie and another user", "address": at["cookies"], "user": "bob"},
            {"name": "token said", "address": at["token"], "token": "t"},
        ]
        pages.jobs = [{"script": "doors", "doors": doors}]
        [job] = pages.run()
    finally:
        for server in servers.values():
            server.__exit__()
    found = {step["step"]: step["result"] for step in job["steps"]}
    denied = {door: result["error"] for door, result in found.items() if isinstance(result, dict)}
    assert denied == {
        "other origins": "ConnectionError",
        "same origin": "ConnectionError",
        "token": "AuthorizationError",
        "cookie and another user": "AuthorizationError",
    }
    assert {door: result for door, result in found.items() if door not in denied} == {
        "open": ["", ""],
        "compressed": ["", _AGREED],
        "cookies": ["ann", ""],
        "stranger": ["bob", ""],
        "token said": ["[REDACTED]", ""],
    }
