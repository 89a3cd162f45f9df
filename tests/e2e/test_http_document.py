"""The lines of the documents of HTTP, pasted into a shell one block after the other, do what they
say.
"""

# Subject: HTTP sign-in, HTTP, documents

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.gateway.web import Web, basic
from tests.support.jetgate import ROOT, JetgateServer
from tests.support.wire import Wire

# What a document shows when its lines have done what they say.
SHOWN = {
    "http.md": '{"succeeded":1,"failed":[]}',
    "kv.md": '"operation":"PUT","text":"grey"',
    "objects.md": '"link":{"bucket":"files","name":"old.tar"}',
}


# Whoever pastes sees an error; a script is told of it by an exit code.
FIRST = 'set -e -o pipefail\ncurl() { command curl -sS -f "$@"; }\nexport -f curl\n'


def _blocks(page: str) -> list[str]:
    """The blocks of a document that ask something."""
    text = (ROOT / "docs" / page).read_text()
    return [
        re.sub(r"^    ", "", block, flags=re.MULTILINE)
        for block in re.findall(r"(?:^    .*\n)+", text, re.MULTILINE)
        if "curl" in block
    ]


def _pasted(blocks: list[str], server: JetgateServer, at: Path) -> subprocess.CompletedProcess[str]:
    """Paste blocks into a shell, asking a server of ours."""
    if shutil.which("curl") is None or shutil.which("bash") is None:
        pytest.skip("curl and bash are not there: the lines cannot be pasted")
    host, port = server.http
    script = FIRST + "".join(blocks).replace("localhost:8080", f"{host}:{port}")
    return subprocess.run(
        ["bash"], input=script, capture_output=True, text=True, timeout=60, cwd=at, check=False
    )


@pytest.fixture
def server(jetgate_server: JetgateServer) -> Iterator[JetgateServer]:
    """The server of all tests, which keeps no stream of this one."""
    with Wire(jetgate_server.address) as wire:
        wire.hello()
        before = wire.api("STREAM.NAMES")["streams"] or []
        yield jetgate_server
        for name in wire.api("STREAM.NAMES")["streams"] or []:
            if name not in before:
                wire.api(f"STREAM.DELETE.{name}")


@pytest.mark.parametrize("document", SHOWN)
def test_every_line_of_the_document_works(
    server: JetgateServer, tmp_path: Path, document: str
) -> None:
    blocks = _blocks(document)

    pasted = _pasted(blocks, server, tmp_path)

    assert pasted.returncode == 0, (pasted.stdout[-2000:], pasted.stderr)
    assert SHOWN[document] in pasted.stdout
    assert len(blocks) > 7


def test_every_line_about_signing_in_works(tmp_path: Path) -> None:
    blocks = _blocks("http-auth.md")
    keep = "cp jar jar.kept\n"  # the last line forgets the session
    flags = ("--user", "me", "--pass", "secret", "--log-level", "debug")
    with JetgateServer(*flags, in_memory=True) as server:
        script = [
            block.replace("curl -b jar -c jar", f"{keep}curl -b jar -c jar") for block in blocks
        ]
        pasted = _pasted(script, server, tmp_path)
        me = {"Authorization": basic("me", "secret")}
        told = (
            server.log(1 << 20) + Web(server.http).send("GET", "/metrics", None, me).body.decode()
        )

    secrets = re.findall(r'"ticket":"([^"]+)"', pasted.stdout)
    secrets += re.findall(r"jetgate\t(\S+)", (tmp_path / "jar.kept").read_text())
    assert len(secrets) == 3
    assert not [
        secret for secret in (*secrets, "secret", me["Authorization"][6:]) if secret in told
    ]
    assert pasted.returncode == 0, (pasted.stdout[-2000:], pasted.stderr)
    assert pasted.stdout.count('"ticket":"') == 2
    assert pasted.stdout.count('{"name":"me","expires":"') == 2
    assert len(blocks) == 3
