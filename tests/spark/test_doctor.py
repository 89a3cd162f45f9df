"""The doctor of servers that run, asked as users ask it."""

# Subject: Spark pipelines

from pathlib import Path

import pytest

from tests.support import spark as support

support.require()

from pyspark_jetstream import doctor  # noqa: E402
from pyspark_jetstream.command import main  # noqa: E402

from tests.spark.feeds import SECRET, Feed  # noqa: E402
from tests.support.jetgate import JetgateServer  # noqa: E402
from tests.support.natsserver import NatsServer  # noqa: E402

Server = JetgateServer | NatsServer


def url(server: Server) -> str:
    return "nats://{}:{}".format(*server.address)


@pytest.fixture(autouse=True)
def java(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Java and the Python of the suite."""
    for name, value in support.environment().items():
        monkeypatch.setenv(name, value)


def test_servers_that_can_be_reached_are_reported(
    server: Server, dsn: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["doctor", "--no-spark", "--dsn", dsn, "--servers", url(server)])
    told = capsys.readouterr().out
    assert "ok    sql: reached" in told
    assert "ok    nats: reached" in told
    assert "with the format jetstream" in told
    transactions = "ok" if isinstance(server, JetgateServer) else "warn"
    assert f"{transactions:<4}  transactional writes: " in told


def test_places_named_in_a_file_are_checked(
    feed: Feed, dsn: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    feed.put("a", "b")
    file = tmp_path / "lake.yaml"
    file.write_text(
        f"kind: archive\nname: lake\nsource: {{stream: [{feed.name}, NOT_HERE],"
        f' options: {{dsn: "{dsn}"}}}}\ntarget: {{path: {tmp_path}/lake}}\n'
    )
    assert main(["doctor", "--no-spark", str(file)]) == 1
    told = capsys.readouterr().out
    assert f"ok    stream {feed.name}: 2 messages, sequences 1 to 2, by sql" in told
    assert "fail  stream NOT_HERE: " in told


def test_a_target_that_is_not_there_is_reported(
    feed: Feed,
    jetgate_server: JetgateServer,
    dsn: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = f'source: {{stream: {feed.name}, options: {{dsn: "{dsn}"}}}}'
    servers = f"options: {{servers: '{url(jetgate_server)}'}}"
    file = tmp_path / "latest.yaml"
    file.write_text(
        "pipelines:\n"
        f"  - {{kind: materialize, name: m, {source}, checkpoint: /c,"
        f" target: {{bucket: nobucket, delivery: at-least-once, {servers}}}}}\n"
        f"  - {{kind: replay, name: r, {source}, checkpoint: /c,"
        f" target: {{stream: {feed.name}, delivery: at-least-once, {servers}}}}}\n"
    )
    assert main(["doctor", "--no-spark", str(file)]) == 1
    told = capsys.readouterr().out
    assert "fail  stream KV_nobucket: stream 'KV_nobucket' was not found" in told
    assert f"fail  stream {feed.name}" not in told


def test_servers_that_are_away_are_told_without_their_secrets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "TIME_LIMIT", 0.1)
    monkeypatch.setenv("AWAY", f"postgresql://me:{SECRET}@127.0.0.1:1/db?connect_timeout=1")
    arguments = ["--no-spark", "--servers", "nats://127.0.0.1:1"]
    assert main(["doctor", *arguments, "--dsn", "env:AWAY"]) == 1
    told = capsys.readouterr().out
    assert "fail  sql: NotReachable: " in told
    assert "fail  nats: NotReachable: " in told
    assert SECRET not in told
