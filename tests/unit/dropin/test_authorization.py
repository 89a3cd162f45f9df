"""The block `authorization` becomes the users of a hub."""

# Subject: permissions, configuration

import pytest

from core.errors import ConfigError
from dropin.config.authorization import users_of


@pytest.mark.parametrize("block", [None, {}, {"timeout": 5}, {"users": []}])
def test_without_a_block_every_client_is_accepted(block: dict[str, object] | None) -> None:
    assert users_of(block) is None


def test_users_get_their_permissions_or_the_default_ones() -> None:
    users = users_of(
        {
            "default_permissions": {"publish": "a"},
            "users": [
                {"user": "x", "password": "1"},
                {
                    "user": "y",
                    "pass": "2",
                    "permissions": {
                        "pub": {"allow": ["b", "c"], "deny": "d"},
                        "subscribe": "e q",
                        "allow_responses": {"max": 3, "expires": "1m"},
                    },
                },
            ],
            "timeout": "3s",
        },
        "x",
    )

    assert users is not None
    first, second = users.users
    assert (users.timeout, users.no_auth_user) == (3.0, "x")
    assert first.permissions is not None
    assert first.permissions.publish.allow == ("a",)
    assert second.permissions is not None
    assert second.permissions.publish.deny == ("d",)
    assert second.permissions.subscribe.allow == ("e q",)
    assert second.permissions.responses is not None
    assert second.permissions.responses.ttl == 60.0


@pytest.mark.parametrize(
    "block",
    [
        {"users": [{"nkey": "U"}]},
        {"token": "t", "auth_callout": {"issuer": "A"}},
        {"users": [{"user": "x", "permissions": {"nope": 1}}]},
        {"users": [{"user": "x", "proxy_required": True}]},
        {"users": [5]},
        {"users": 5},
        {"users": [{"user": "x", "permissions": {"allow_responses": {"max": "many"}}}]},
    ],
)
def test_a_guard_that_cannot_be_served_is_refused(block: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        users_of(block)
