"""Who we are on another system: users, tokens, nkeys, and credentials files; and who we are not."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from core.client import Client
from core.client.refusals import ClientError, ServerRefused
from core.remote.keeper import open_line
from core.remote.settings import Remote
from tests.support.natsserver import NatsServer
from tests.support.nkeys import Nkey, credentials, operator_options


def url(server: NatsServer, login: str = "") -> str:
    return f"nats://{login}{server.address[0]}:{server.address[1]}"


def streams(remote: Remote) -> int:
    """How many streams a remote has; proof that we are let in and may ask."""

    async def ask() -> int:
        client = open_line(remote)
        assert isinstance(client, Client)
        try:
            await client.open()
            answer = await client.request(b"$JS.API.INFO")
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
