"""Connections of the Spark format: servers, TLS, every way to authenticate, permissions."""

# Subject: Spark over NATS

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")

from pyspark_jetstream.nats.connection import Connection
from pyspark_jetstream.nats.errors import (
    Denied,
    Disconnected,
    NoResponders,
    Refused,
    Rejected,
    Timeout,
)
from pyspark_jetstream.nats.requests import Requests
from pyspark_jetstream.nats.settings import Settings, Tls
from pyspark_jetstream.values import InvalidOption, Secret

from tests.support.jetgate import JetgateServer
from tests.support.natsserver import NatsServer
from tests.support.nkeys import Nkey, credentials, operator_options
from tests.support.ports import free_port

_TLS = Path(__file__).parents[1] / "support" / "tls"
_GONE = "nats://127.0.0.1:1"


def _secret(value: str) -> Secret:
    return Secret("auth", value)


def _url(server: NatsServer | JetgateServer, scheme: str = "nats") -> str:
    return f"{scheme}://127.0.0.1:{server.address[1]}"


def _works(settings: Settings) -> bool:
    """Whether a stream can be asked for, so that the server has accepted the client."""
    with Connection(settings) as connection:
        answer = Requests(connection).api("$JS.API.INFO")
        return "limits" in answer


def test_servers_are_tried_until_one_answers(server: NatsServer | JetgateServer) -> None:
    assert all(_works(Settings((_GONE, _url(server), _GONE))) for _ in range(6))


def test_servers_that_do_not_answer_are_named() -> None:
    port = free_port()
    with pytest.raises(Disconnected, match=r"127\.0\.0\.1:1: .*refused") as gone:
        Connection(Settings((_GONE, f"nats://127.0.0.1:{port}")))
    assert f"127.0.0.1:{port}: " in str(gone.value)


@pytest.fixture(scope="module")
def token_server() -> Iterator[NatsServer]:
    with NatsServer({"authorization": "{token: s3cret}"}) as started:
        yield started


@pytest.mark.parametrize("where", ["literal", "env", "file"])
def test_a_token_is_taken_from_where_it_is_kept(
    token_server: NatsServer, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    monkeypatch.setenv("SPARK_TEST_TOKEN", "s3cret")
    secret = {
        "literal": "s3cret",
        "env": "env:SPARK_TEST_TOKEN",
        "file": f"file:{tmp_path / 'token'}",
    }
    assert _works(Settings((_url(token_server),), token=_secret(secret[where])))


def test_wrong_and_missing_secrets_are_refused_at_once(token_server: NatsServer) -> None:
    for token in (None, _secret("wrong")):
        with pytest.raises(Rejected, match="Authorization Violation"):
            Connection(Settings((_url(token_server),), token=token))
    with pytest.raises(InvalidOption, match="NO_SUCH_NAME"):
        Connection(Settings((_url(token_server),), token=_secret("env:NO_SUCH_NAME")))


def test_settings_do_not_show_their_secrets() -> None:
    settings = Settings(token=_secret("s3cret"), tls=Tls(key_password=_secret("s3cret")))
    assert "s3cret" not in repr(settings)


def test_a_user_with_a_password() -> None:
    with NatsServer({"authorization": "{user: ann, password: pw}"}) as server:
        good = Settings((_url(server),), user=_secret("ann"), password=_secret("pw"))
        assert _works(good)
        with pytest.raises(Rejected):
            Connection(Settings((_url(server),), user=_secret("ann"), password=_secret("no")))


def test_an_nkey_signs_what_the_server_asks(token_server: NatsServer) -> None:
    key, other = Nkey("user"), Nkey("user")
    with NatsServer({"authorization": f"{{users: [{{nkey: {key.public}}}]}}"}) as server:
        assert _works(Settings((_url(server),), nkey=_secret(key.seed)))
        with pytest.raises(Rejected, match="Authorization Violation"):
            Connection(Settings((_url(server),), nkey=_secret(other.seed)))
        with pytest.raises(Rejected, match="begin with SU"):
            Connection(Settings((_url(server),), nkey=_secret(Nkey("account").seed)))
        # The last two bits of the last letter stand for nothing: B would be as good as A.
        damaged = key.seed[:-1] + ("A" if key.seed[-1] != "A" else "E")
        with pytest.raises(Rejected, match="damaged"):
            Connection(Settings((_url(server),), nkey=_secret(damaged)))
    with pytest.raises(Rejected, match="no users with nkeys"):
        Connection(Settings((_url(token_server),), nkey=_secret(key.seed)))


def test_a_credentials_file_holds_a_jwt_and_its_key(tmp_path: Path) -> None:
    account, user = Nkey("account"), Nkey("user")
    unlimited: dict[str, Any] = {"subs": -1, "data": -1, "payload": -1}
    with NatsServer(dict(operator_options(account))) as server:
        jwt = account.jwt(user, "ann", **unlimited)
        path = tmp_path / "user.creds"
        path.write_text(credentials(jwt, user.seed))
        assert _works(Settings((_url(server),), creds=_secret(f"file:{path}")))
        path.write_text(credentials(jwt, Nkey("user").seed))
        with pytest.raises(Rejected):
            Connection(Settings((_url(server),), creds=_secret(f"file:{path}")))
        path.write_text("nothing")
        with pytest.raises(Rejected, match="NATS USER JWT"):
            Connection(Settings((_url(server),), creds=_secret(f"file:{path}")))


@pytest.fixture(scope="module")
def tls_server() -> Iterator[NatsServer]:
    lines = f'{{cert_file: "{_TLS / "cert.pem"}", key_file: "{_TLS / "key.pem"}"}}'
    with NatsServer({"tls": lines}) as started:
        yield started


def test_tls_is_used_where_the_server_asks_for_it(tls_server: NatsServer) -> None:
    known = Tls(ca=str(_TLS / "cert.pem"))
    assert _works(Settings((_url(tls_server),), tls=known))
    assert _works(Settings((_url(tls_server),), tls=Tls(verify=False)))
    with pytest.raises(Rejected, match="TLS"):
        Connection(Settings((_url(tls_server),)))
    with pytest.raises(Rejected, match="TLS"):
        Connection(Settings((_url(tls_server, "tls"),)))


def test_tls_before_the_first_word(tls_server: NatsServer) -> None:
    lines = f'{{cert_file: "{_TLS / "cert.pem"}", key_file: "{_TLS / "key.pem"}"'
    with NatsServer({"tls": lines + ", handshake_first: true}"}) as server:
        assert _works(Settings((_url(server),), tls=Tls(verify=False, first=True)))


def test_tls_that_a_server_does_not_speak_is_refused(nats_server: NatsServer) -> None:
    with pytest.raises(Rejected, match="does not support TLS"):
        Connection(Settings((_url(nats_server),), tls=Tls()))


def test_a_missing_permission_names_the_subject() -> None:
    users = (
        '{users: [{user: u, password: p, permissions: {publish: ["a.>"], subscribe: "_INBOX.>"}}]}'
    )
    with NatsServer({"authorization": users}) as server:
        settings = Settings((_url(server),), user=_secret("u"), password=_secret("p"))
        with Connection(settings) as connection:
            requests = Requests(connection)
            with pytest.raises(Denied, match=r'Publish to "\$JS\.API\.INFO"'):
                requests.api("$JS.API.INFO")
            with pytest.raises(NoResponders, match=r"a\.service"):
                requests.api("a.service")


def test_errors_of_the_api_have_their_numbers(server: NatsServer | JetgateServer) -> None:
    with Connection(Settings((_url(server),))) as connection:
        with pytest.raises(Refused) as refused:
            Requests(connection).api("$JS.API.STREAM.INFO.NO_SUCH_STREAM")
        assert (refused.value.code, refused.value.err_code) == (404, 10059)


def test_requests_under_way_at_once_get_their_own_replies(
    server: NatsServer | JetgateServer,
) -> None:
    with Connection(Settings((_url(server),))) as connection:
        requests = Requests(connection)
        names = [f"NO_SUCH_{number}" for number in range(50)]
        subjects = [f"$JS.API.STREAM.NAMES?{name}" for name in names]
        tokens = [
            requests.send("$JS.API.CONSUMER.INFO.NO_SUCH.C" if number % 2 else "$JS.API.INFO")
            for number, _ in enumerate(subjects)
        ]
        for number in reversed(range(50)):
            if number % 2:
                with pytest.raises(Refused):
                    requests.answer(tokens[number], "consumer")
            else:
                assert "limits" in requests.answer(tokens[number], "info")


def test_an_unanswered_request_ends(server: NatsServer | JetgateServer) -> None:
    with (
        Connection(Settings((_url(server),))) as connection,
        Connection(Settings((_url(server),))) as silent,
    ):
        silent.subscribe("silent.service")
        silent.flush()
        with pytest.raises(Timeout, match=r"silent\.service"):
            Requests(connection).api("silent.service", timeout=0.2)
