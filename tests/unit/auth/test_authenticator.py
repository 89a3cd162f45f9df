"""Credentials: who is right at once, what has to be hashed, and what a refusal costs."""

# Subject: permissions

import bcrypt
import pytest

from core.auth.authenticator import Authenticator, Identity, SlowCheck
from core.auth.users import User, Users, hash_cost, is_hash
from core.errors import AuthError
from core.protocol.connect import Connect


def _hash(password: bytes, cost: int) -> str:
    return bcrypt.hashpw(password, bcrypt.gensalt(cost, b"2a")).decode()


CHEAP, DEAR = _hash(b"cheap", 4), _hash(b"dear", 6)
USERS = Users(
    users=(
        User("cheap", CHEAP),
        User("dear", DEAR),
        User("plain", "plain"),
        User("broken", "$2a$31$short"),
        User("web", CHEAP, connection_types=frozenset(("WEBSOCKET",))),
        User("web-plain", "plain", connection_types=frozenset(("WEBSOCKET",))),
    )
)


def _check(
    authenticator: Authenticator, user: str, password: str, nkey: str = ""
) -> Identity | SlowCheck:
    return authenticator.authenticate(Connect(user=user, password=password, nkey=nkey), "STANDARD")


def _is_right(authenticator: Authenticator, user: str, password: str) -> bool:
    found = _check(authenticator, user, password)
    return isinstance(found, Identity) or found.run()


def test_a_password_in_clear_is_right_at_once() -> None:
    assert _check(Authenticator(USERS), "plain", "plain") == Identity(user="plain")


def test_a_hash_is_computed_once() -> None:
    authenticator = Authenticator(USERS)
    check = _check(authenticator, "cheap", "cheap")
    assert isinstance(check, SlowCheck)
    assert check.run()
    authenticator.remember(check)

    assert _check(authenticator, "cheap", "cheap") == Identity(user="cheap")
    assert authenticator.is_verified(check)
    assert isinstance(_check(authenticator, "cheap", "dear"), SlowCheck)


def test_a_checked_password_stays_valid_after_a_reload_unless_its_hash_changes() -> None:
    before = Authenticator(USERS)
    for user in ("cheap", "dear"):
        check = _check(before, user, user)
        assert isinstance(check, SlowCheck)
        assert check.run()
        before.remember(check)
    after = Authenticator(Users(users=(User("cheap", CHEAP), User("dear", _hash(b"x", 4)))), before)

    assert _check(after, "cheap", "cheap") == Identity(user="cheap")
    assert isinstance(_check(after, "dear", "dear"), SlowCheck)


@pytest.mark.parametrize(
    ("user", "password", "more"),
    [
        ("dear", "wrong", {}),
        ("cheap", "wrong", {}),
        ("plain", "wrong", {}),
        ("nobody", "wrong", {}),
        ("", "wrong", {}),
        ("broken", "$2a$31$short", {}),
        ("web", "cheap", {}),
        ("web", "wrong", {}),
        ("web-plain", "plain", {}),
        ("plain", "plain", {"nkey": "U"}),
        ("cheap", "cheap", {"nkey": "U"}),
    ],
)
def test_every_refusal_costs_the_same(
    monkeypatch: pytest.MonkeyPatch, user: str, password: str, more: dict[str, str]
) -> None:
    rounds = []
    real = bcrypt.hashpw, bcrypt.checkpw

    def hashpw(given: bytes, salt: bytes) -> bytes:
        rounds.append(2 ** int(salt[4:6]))
        return real[0](given, salt)

    def checkpw(given: bytes, stored: bytes) -> bool:
        rounds.append(2 ** int(stored[4:6]))
        return real[1](given, stored)

    monkeypatch.setattr(bcrypt, "hashpw", hashpw)
    monkeypatch.setattr(bcrypt, "checkpw", checkpw)
    authenticator = Authenticator(USERS)
    check = _check(authenticator, user, password, **more)

    assert isinstance(check, SlowCheck)
    assert not check.run()
    assert sum(rounds) == 2**6
    assert not authenticator.is_verified(check)


@pytest.mark.parametrize("token", ["plain", CHEAP], ids=["plain", "bcrypt"])
def test_a_token(token: str) -> None:
    authenticator = Authenticator(Users(token=token))
    right = "plain" if token == "plain" else "cheap"

    found = authenticator.authenticate(Connect(auth_token=right), "STANDARD")
    assert isinstance(found, Identity) or found.run()
    if token == "plain":
        with pytest.raises(AuthError):
            authenticator.authenticate(Connect(auth_token="x"), "STANDARD")
        return
    wrong = authenticator.authenticate(Connect(auth_token="x"), "STANDARD")
    assert isinstance(wrong, SlowCheck)
    assert not wrong.run()


def test_without_hashes_nothing_is_hashed() -> None:
    with pytest.raises(AuthError):
        _check(Authenticator(Users(users=(User("plain", "plain"),))), "nobody", "x")


def test_secrets_are_not_shown() -> None:
    check = _check(Authenticator(USERS), "cheap", "top-secret")

    assert "top-secret" not in repr(check)
    assert CHEAP not in repr(check)


@pytest.mark.parametrize(
    ("text", "cost"),
    [
        pytest.param(CHEAP, 4, id="bcrypt"),
        ("$2y$31$" + "a" * 53, 31),
        ("$2a$32$" + "a" * 53, 0),
        ("$2a$03$" + "a" * 53, 0),
        ("$2a$10$" + "a" * 54, 0),
        ("$2a$10$" + "é" * 53, 0),
        ("$2a$10$short", 0),
        ("", 0),
    ],
)
def test_the_cost_of_a_hash(text: str, cost: int) -> None:
    assert hash_cost(text) == cost
    assert is_hash(text) == bool(text)


def test_a_password_is_as_long_as_bcrypt_reads() -> None:
    authenticator = Authenticator(Users(users=(User("long", _hash(b"a" * 72, 4)),)))

    assert _is_right(authenticator, "long", "a" * 72)
    assert _is_right(authenticator, "long", "a" * 300 + "\ud800")
    assert not _is_right(authenticator, "long", "a" * 71)
