"""The file of --config: two blocks, and a place for every mistake."""

# Subject: configuration

from pathlib import Path

import pytest

from core.errors import ConfigError
from core.pubsub.mappings import Destination, Mapping
from core.remote.settings import Remote
from jetgate.config_file import read_blocks


def test_mappings_and_remotes_are_read(tmp_path: Path) -> None:
    (tmp_path / "more.conf").write_text(
        'HUB: "nats://h:4222"\nremotes: [ { name: hub, url: $HUB } ]'
    )
    path = tmp_path / "jetgate.conf"
    path.write_text("mappings { a: b }\ninclude more.conf\n")

    blocks = read_blocks(str(path))

    assert blocks.mappings == (Mapping("a", (Destination("b"),)),)
    assert blocks.remotes == (Remote("hub", "nats://h:4222"),)


@pytest.mark.parametrize(
    ("text", "wording"),
    [
        ("port: 4222", r'x\.conf:1:0: unknown field "port"; http, mappings and remotes are known'),
        ("remotes { hub { url: 3 } }", r"x\.conf:1:0: remotes: a remote needs a url"),
        ("mappings { a: 3 }", r"x\.conf:1:11: Expected an entry for the mapping destination"),
        ("remotes {", r"x\.conf: Parse error on line 1"),
    ],
)
def test_unusable_values_are_named(tmp_path: Path, text: str, wording: str) -> None:
    (tmp_path / "x.conf").write_text(text)

    with pytest.raises(ConfigError, match=wording):
        read_blocks(str(tmp_path / "x.conf"))


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ConfigError, match="--config: cannot read /none: no such file"):
        read_blocks("/none")
