"""The tests before this one called everything that the official client offers."""

# Subject: tests

import pytest

from tests.clients.python.usage import Usage

NOT_YET = {
    "Client.connect(tls)",
    "Client.connect(tls_hostname)",
    "Client.connect(tls_handshake_first)",
    "Client.connect(signature_cb)",
    "Client.connect(user_jwt_cb)",
    "Client.connect(user_credentials)",
    "Client.connect(nkeys_seed)",
    "Client.connect(nkeys_seed_str)",
    "Client.ssl_context",
}
"""TLS, nkeys and JWT are not served."""

NOT_OF_A_SINGLE_SERVER = {"Client.connect(discovered_server_cb)"}
DEPRECATED = {"KeyValue.delete(msg_ttl)"}


def test_everything_was_called(usage: Usage, request: pytest.FixtureRequest) -> None:
    """Every public method and property, with every parameter; last of the package by its name."""
    folder = request.path.parent
    ran = {item.path for item in request.session.items if item.path.parent == folder}
    if ran < set(folder.glob("test_*.py")):
        pytest.skip("only a part of the package ran")
    missing = sorted(usage.missing() - NOT_YET - NOT_OF_A_SINGLE_SERVER - DEPRECATED)
    assert not missing, ", ".join(missing)
