"""The hub: names, accounts, back-pressure."""

# Subject: routing

import binascii
import json
from base64 import b32decode

import pytest

from core.auth.authenticator import Identity
from core.errors import AuthError
from core.protocol.connect import Connect
from tests.support.sessions import ListSession, idle_hub, listen


def test_the_server_has_the_name_of_a_public_key() -> None:
    hub = idle_hub()

    raw = b32decode(hub.server_id)
    assert len(hub.server_id) == 56
    assert hub.server_id[0] == "N"
    assert hub.xkey[0] == "X"
    assert binascii.crc_hqx(raw[:-2], 0) == int.from_bytes(raw[-2:], "little")
    assert hub.server_name == hub.server_id
    assert idle_hub().server_id != hub.server_id


def test_a_client_does_not_choose_its_account() -> None:
    hub = idle_hub()

    assert hub.authenticate(Connect()) == Identity()
    with pytest.raises(AuthError):
        hub.authenticate(Connect(account="other"))


def test_a_client_can_request_its_user_information() -> None:
    hub = idle_hub()
    account = hub.default_account()
    session = ListSession()
    listen(account, session, b"r")

    account.publish(b"$SYS.REQ.USER.INFO", b"r", b"", b"")
    account.publish(b"$SYS.REQ.USER.INFO", b"", b"", b"")

    body = json.loads(session.drain().split(b"\r\n")[1])
    assert body["data"] == {"user": "", "account": "$G", "account_name": "$G"}
    assert body["server"]["id"] == hub.server_id
    assert body["server"]["time"] == "2023-11-14T22:13:20Z"
