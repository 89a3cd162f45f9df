"""What a remote may be, and that its secrets are not shown."""

# Subject: remotes

from typing import Any

import pytest

from core.errors import ConfigError
from core.remote.settings import Remote, remotes_of


@pytest.mark.parametrize(
    ("url", "shown", "login"),
    [
        ("nats://h:4222", "nats://h:4222", ("", "", "")),
        ("nats://ann:p%40@h", "nats://***@h", ("ann", "p@", "")),
        ("nats://s3cret@h:1", "nats://***@h:1", ("", "", "s3cret")),
        ("tcp://[::1]:4222", "tcp://[::1]:4222", ("", "", "")),
    ],
)
def test_an_address_is_read_and_shown_without_secrets(
    url: str, shown: str, login: tuple[str, str, str]
) -> None:
    remote = Remote("r", url)

    assert (remote.shown, remote.login) == (shown, login)


@pytest.mark.parametrize(
    ("name", "url", "why"),
    [
        ("a.b", "nats://h", "expected 1 to 32 letters"),
        ("", "nats://h", "expected 1 to 32 letters"),
        ("API", "nats://h", "has a meaning"),
        ("r", "h:4222", "no address"),
        ("r", "nats://", "no address"),
        ("r", "nats://h:x", "no address"),
        ("r", "nats://u:secret@h:x", r"'nats://\*\*\*@h:x' is no address"),
        ("r", "ws://h", "ws:// is not served"),
    ],
)
def test_unusable_settings_are_explained(name: str, url: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        Remote(name, url)


@pytest.mark.parametrize(
    "value",
    [
        {"name": "hub", "url": "nats://h", "creds": "/c"},
        [{"name": "hub", "url": "nats://h", "creds": "/c"}],
        {"hub": {"url": "nats://h", "creds": "/c"}},
    ],
)
def test_a_block_has_three_forms(value: Any) -> None:
    assert remotes_of(value) == (Remote("hub", "nats://h", "/c"),)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (3, "expected {name, url, creds}"),
        ({"hub": "nats://h"}, "expected {name, url, creds}"),
        ([{"name": "hub"}], "a remote needs a url"),
        ([{"name": "hub", "url": "nats://h", "user": "x"}], "unknown field 'user'"),
        ([{"name": "a", "url": "nats://h"}, {"name": "a", "url": "nats://i"}], "two are called"),
    ],
)
def test_a_block_that_cannot_be_used_is_explained(value: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        remotes_of(value)
