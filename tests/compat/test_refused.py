"""Refusals of features that jetgate does not serve; the page of compatibility repeats them."""

# Subject: documents

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.dropin import run
from tests.support.jetgate import JetgateServer
from tests.support.wire import Wire

Tell = Callable[[str, object], None]

KEY = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
ISSUER = "ABJHLOVMPA4CI6R5KLNGOB4GSLNIY7IOUPAJC4YFNDLQVIOBYQGUWVLA"
USERS = "users: [{user: a, password: b}]"
CONFIGURATIONS = {
    "accounts": f"accounts {{ A {{ {USERS} }} }}",
    "operator": "operator: /some/where.jwt",
    "nkey": f"authorization {{ users: [{{nkey: {KEY}}}] }}",
    "callout": f"authorization {{ {USERS}, auth_callout {{ issuer: {ISSUER}, auth_users: [a] }} }}",
    "tls": "tls { cert_file: c.pem, key_file: k.pem }",
    "proxies": f"proxies {{ trusted: [{{key: {KEY}}}] }}",
}


def told(answer: Any) -> str:
    """Return the form in which the page shows an error of the API."""
    return f"`{answer['error']['err_code']} {answer['error']['description']}`"


@pytest.fixture
def wire(jetgate_server: JetgateServer) -> Any:
    with Wire(jetgate_server.address) as wire:
        wire.hello()
        yield wire


@pytest.mark.parametrize("request_", ["SNAPSHOT", "RESTORE"])
def test_requests(wire: Wire, record_property: Tell, request_: str) -> None:
    wire.api("STREAM.CREATE.N", {"name": "N"})
    bodies = {
        "SNAPSHOT": {"deliver_subject": "d"},
        "RESTORE": {"config": {"name": "M"}, "state": {}},
    }

    name = "N" if request_ == "SNAPSHOT" else "M"
    answer = wire.api(f"STREAM.{request_}.{name}", bodies[request_])

    wire.api("STREAM.DELETE.N")
    assert "is not supported by this server yet" in answer["error"]["description"]
    record_property("refusal", told(answer))


@pytest.mark.parametrize("what", CONFIGURATIONS)
def test_configurations(tmp_path: Path, record_property: Tell, what: str) -> None:
    place = tmp_path / "server.conf"
    place.write_text(f"port: -1\n{CONFIGURATIONS[what]}\n")

    ended = run("jetgate-nats-server", "-c", str(place))

    assert ended.returncode == 1
    line = ended.stderr.strip().splitlines()[-1]
    assert "[FTL] " in line
    assert "not served" in line
    record_property("refusal", "`" + line.partition("[FTL] ")[2] + "`")
