"""Errors that stay are told at once, those that pass are waited for: the tables of both."""

# Subject: Spark rows

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install -e '.[all-tests]'")

from pyspark_jetstream.nats import publishing, tries
from pyspark_jetstream.nats.errors import (
    PASSES,
    Disconnected,
    NatsError,
    Refused,
    Timeout,
    is_passing,
    refused,
)
from pyspark_jetstream.nats.parser import Columns
from pyspark_jetstream.nats.publishing import Messages, NotStored, Publisher
from pyspark_jetstream.nats.settings import Settings
from pyspark_jetstream.transport.sqlstates import PERMANENT, of_connection, of_statement

AT = 'connection to server at "127.0.0.1", port 5432 failed: '


@pytest.mark.parametrize("code", ["28P01", "3D000", "3F000", "42P01", "42501", "57P04", "22003"])
def test_an_error_of_a_statement_that_stays(code: str) -> None:
    verdict = of_statement(code)

    assert verdict.is_permanent
    assert verdict.explanation == PERMANENT.get(code, "")


@pytest.mark.parametrize(
    "code", ["", "08006", "40001", "53300", "53100", "55P03", "57014", "57P01", "57P03", "58030"]
)
def test_an_error_of_a_statement_that_passes(code: str) -> None:
    assert not of_statement(code).is_permanent


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (AT + 'FATAL:  password authentication failed for user "jet"', "28P01"),
        (AT + "fe_sendauth: no password supplied", "28P01"),
        (AT + 'FATAL:  database "nowhere" does not exist', "3D000"),
        (AT + 'FATAL:  role "nobody" does not exist', "28000"),
        (AT + 'FATAL:  no pg_hba.conf entry for host "10.0.0.1", user "jet"', "28000"),
        (AT + 'FATAL:  permission denied for database "jetgate"', "42501"),
        (AT + "server does not support SSL, but SSL was required", "42704"),
        (AT + "SSL error: certificate verify failed", "42704"),
        ('invalid URI query parameter: "foo"', "42704"),
        ('invalid integer value "x" for connection option "port"', "42704"),
        ('extra key/value separator "=" in URI query parameter: "options"', "42704"),
    ],
)
def test_a_connection_that_will_never_be(text: str, code: str) -> None:
    assert of_connection("", f"IO: [libpq] Failed to connect: {text}").code == code
    assert of_connection("", f"IO: [libpq] Failed to connect: {text}").is_permanent


@pytest.mark.parametrize(
    "text",
    [
        AT + "Connection refused\n\tIs the server running on that host?",
        AT + "FATAL:  the database system is starting up",
        AT + "FATAL:  sorry, too many clients already",
        AT + "FATAL:  remaining connection slots are reserved",
        AT + "server closed the connection unexpectedly",
        'could not translate host name "db" to address: Name or service not known',
        "timeout expired",
        f'{AT}Connection refused\n{AT}FATAL:  database "db" does not exist',
        "FATAL:  Passwort-Authentifizierung fehlgeschlagen",
    ],
)
def test_a_connection_that_may_be_soon(text: str) -> None:
    """One of two hosts that is away may be the right one."""
    assert not of_connection("", f"IO: [libpq] Failed to connect: {text}").is_permanent


@pytest.mark.parametrize(
    ("code", "err_code", "words", "passes"),
    [
        (503, 10008, "temporarily unavailable", True),
        (500, 10009, "can not handle request", True),
        (503, 10023, "insufficient resources", True),
        (503, 10077, "maximum messages exceeded", True),
        (503, 10077, "message too large", False),
        (429, 10174, "too many requests", True),
        (503, 10076, "JetStream not enabled", False),
        (503, 10039, "JetStream not enabled for account", False),
        (400, 10071, "wrong last sequence", False),
        (404, 10059, "stream not found", False),
    ],
)
def test_an_error_of_jetstream(code: int, err_code: int, words: str, passes: bool) -> None:
    error = refused({"code": code, "err_code": err_code, "description": words})

    assert is_passing(error) == passes


NOBODY = b"NATS/1.0 503\r\n\r\n"


class Server:
    """Stands for a server: what it answers to a publish, and which streams it names."""

    def __init__(self, answer: bytes | None, streams: list[str] | None) -> None:
        self.answer, self.streams = answer, streams
        self.asked = self.published = 0

    def publisher(self, patch: pytest.MonkeyPatch) -> Publisher:
        server = self

        class Connection:
            max_payload = 1 << 20

            def __init__(self, settings: Settings, seconds: float | None = None) -> None:
                self.settings = settings
                self.inbox = Columns()

            def __enter__(self) -> "Connection":
                return self

            def __exit__(self, *_: object) -> None:
                pass

            def subscribe(self, subject: str) -> tuple[bytes, Columns]:
                return b"1", self.inbox

            def send(self, data: bytes) -> None:
                server.published += 1
                if server.answer is not None:
                    self.inbox.subjects.append(data.split(b" ")[2])
                    self.inbox.headers.append(server.answer)
                    self.inbox.payloads.append(b"")
                    self.inbox.replies.append(b"")

            def wait(self, ready: object, timeout: float, what: str) -> None:
                assert callable(ready)
                if not ready():
                    raise Timeout("nothing came")

            def close(self) -> None:
                pass

        class Requests:
            def __init__(self, connection: Connection) -> None:
                pass

            def api(self, subject: str, body: dict[str, str], timeout: float) -> object:
                server.asked += 1
                if server.streams is None:
                    raise Disconnected("away")
                return {"streams": server.streams}

        patch.setattr(publishing, "Connection", Connection)
        patch.setattr(publishing, "Requests", Requests)
        patch.setattr(tries, "pause", lambda seconds: None)
        return Publisher(Settings(retries=5), 8, 1 << 20)

    def publish(self, patch: pytest.MonkeyPatch) -> NatsError:
        publisher = self.publisher(patch)
        publisher.send(Messages([b"a"], [b""], [b"x"]))
        with pytest.raises(NatsError) as caught:
            publisher.finish()
        return caught.value


@pytest.mark.parametrize("answer", [NOBODY, None])
def test_a_subject_that_no_stream_takes_is_refused_at_the_first_answer(
    answer: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that a client subscribes to, which never acknowledges."""
    server = Server(answer, [])

    error = server.publish(monkeypatch)

    assert isinstance(error, NotStored)
    assert "message 0 to a was not stored: no stream takes this subject" in str(error)
    assert (server.published, server.asked) == (1, 1)


@pytest.mark.parametrize("streams", [["S"], None])
@pytest.mark.parametrize("answer", [NOBODY, None])
def test_a_subject_whose_stream_is_away_is_tried_again(
    answer: bytes | None, streams: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(answer, streams)

    error = server.publish(monkeypatch)

    assert isinstance(error, NotStored if answer else Timeout)
    assert server.published == 6


def test_errors_of_the_client_that_pass() -> None:
    assert not isinstance(Refused(404, 10059, ""), PASSES)
    assert isinstance(refused({"err_code": 10008}), PASSES)
