"""Who we are on another system: users, tokens, nkeys, and credentials files; and who we are not."""

# Subject: remotes

import asyncio
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from core.client import Client
from core.client.errors import ClientError, ServerRefused
from core.client.tcp import _context
from core.remote.remotes import open_line
from core.remote.settings import Remote
from tests.support.natsserver import NatsServer
from tests.support.nkeys import Nkey, credentials, operator_options
from tests.support.ports import free_port


def url(server: NatsServer, login: str = "") -> str:
    host = server.address[0].rpartition("/")[2]  # with TLS it says tls://host
    return f"nats://{login}{host}:{server.address[1]}"


def streams(remote: Remote) -> int:
    """How many streams a remote has; proof that we are let in and may ask."""

    async def ask() -> int:
        client = open_line(remote)
        assert isinstance(client, Client)
        try:
            await client.open()
            answer = await client.request(b"$JS.API.INFO", within=30)
            return int(msgspec.json.decode(answer.payload)["streams"])
        finally:
            await client.close()

    return asyncio.run(ask())


def test_a_user_and_password_of_the_address() -> None:
    with NatsServer({"authorization": '{ user: ann, password: "p@ss/1" }'}) as server:
        assert streams(Remote("r", url(server, "ann:p%40ss%2F1@"))) == 0
        with pytest.raises(ServerRefused, match="Authorization Violation"):
            streams(Remote("r", url(server, "ann:no@")))
        with pytest.raises(ServerRefused, match="Authorization Violation"):
            streams(Remote("r", url(server)))


def test_a_token_of_the_address() -> None:
    with NatsServer({"authorization": "{ token: s3cret }"}) as server:
        assert streams(Remote("r", url(server, "s3cret@"))) == 0


def test_a_file_with_an_nkey_seed(tmp_path: Path) -> None:
    key, other = Nkey("user"), Nkey("user")
    (tmp_path / "key").write_text(key.seed + "\n")
    (tmp_path / "other").write_text(other.seed + "\n")
    with NatsServer({"authorization": f"{{ users: [ {{ nkey: {key.public} }} ] }}"}) as server:
        assert streams(Remote("r", url(server), str(tmp_path / "key"))) == 0
        with pytest.raises(ServerRefused, match="Authorization Violation"):
            streams(Remote("r", url(server), str(tmp_path / "other")))


def test_a_credentials_file(tmp_path: Path) -> None:
    account, user = Nkey("account"), Nkey("user")
    jwt = account.jwt(user, "ann", subs=-1, data=-1, payload=-1)
    (tmp_path / "good.creds").write_text(credentials(jwt, user.seed))
    (tmp_path / "stolen.creds").write_text(credentials(jwt, Nkey("user").seed))
    with NatsServer(dict(operator_options(account))) as server:
        assert streams(Remote("r", url(server), str(tmp_path / "good.creds"))) == 0
        with pytest.raises(ServerRefused, match="Authorization Violation"):
            streams(Remote("r", url(server), str(tmp_path / "stolen.creds")))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "No such file"),
        ("hello", "neither a user JWT nor an nkey seed"),
        (credentials("a.b.c", "SUAMFOO"), "the nkey seed is damaged"),
        (credentials("a.b.c", Nkey("account").seed), "the nkey seed is damaged"),
    ],
)
def test_a_file_that_is_none_is_named_without_what_is_in_it(
    tmp_path: Path, nats_server: NatsServer, text: str | None, why: str
) -> None:
    path = tmp_path / "x.creds"
    if text is not None:
        path.write_text(text)

    with pytest.raises(ClientError) as caught:
        streams(Remote("r", url(nats_server), str(path)))

    assert str(path) in str(caught.value)
    assert why in str(caught.value)
    assert "SU" not in str(caught.value)


def test_a_leaf_node_authenticates_and_is_refused_otherwise() -> None:
    port = free_port()
    who = "{ user: ann, password: right }"
    block = f"{{ host: 127.0.0.1, port: {port}, authorization: {who} }}"

    async def enter(login: str) -> bool:
        line = open_line(Remote("r", f"nats-leaf://{login}127.0.0.1:{port}"))
        try:
            await line.open()
            return line.connected
        finally:
            await line.close()

    with NatsServer({"leafnodes": block}):
        assert asyncio.run(enter("ann:right@"))
        with pytest.raises(ServerRefused, match="Authorization Violation"):
            asyncio.run(enter("ann:wrong@"))
        with pytest.raises(ServerRefused, match="Authorization Violation"):
            asyncio.run(enter(""))


TLS = Path(__file__).parents[1] / "support" / "tls"
TLS_BLOCK = f'{{ cert_file: "{TLS}/cert.pem", key_file: "{TLS}/key.pem" }}'


@pytest.fixture
def authorities(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Trust the certificate of the tests; nothing of it stays."""
    _context.cache_clear()
    monkeypatch.setenv("SSL_CERT_FILE", str(TLS / "cert.pem"))
    yield monkeypatch
    _context.cache_clear()


@pytest.mark.parametrize("scheme", ["nats", "tls"])
def test_tls_is_used_where_it_is_required(authorities: pytest.MonkeyPatch, scheme: str) -> None:
    with NatsServer({"tls": TLS_BLOCK, "authorization": "{ token: s3cret }"}) as server:
        assert streams(Remote("r", url(server, "s3cret@").replace("nats", scheme, 1))) == 0


def test_an_untrusted_certificate_is_refused(authorities: pytest.MonkeyPatch) -> None:
    authorities.delenv("SSL_CERT_FILE")
    with (
        NatsServer({"tls": TLS_BLOCK}) as server,
        pytest.raises(OSError, match="certificate verify failed"),
    ):
        streams(Remote("r", url(server)))


def test_tls_that_is_insisted_on_is_not_done_without(nats_server: NatsServer) -> None:
    with pytest.raises(ServerRefused, match="does not offer TLS, and tls:// insists on it"):
        streams(Remote("r", url(nats_server).replace("nats", "tls", 1)))


def test_a_server_that_does_not_greet_is_named() -> None:
    async def work() -> None:
        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ServerRefused, match="it closes without a greeting"):
            await open_line(Remote("r", f"nats://127.0.0.1:{port}")).open()
        server.close()
        await server.wait_closed()

    asyncio.run(work())
