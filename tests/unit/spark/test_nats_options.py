"""The options of connections to NATS."""

# Subject: Spark rows

import pytest
from pyspark_jetstream.options import batch_options, connection_options
from pyspark_jetstream.values import InvalidOption, Values

_BASE = {"servers": "nats://a:1,tls://b"}


def test_the_way_is_that_of_what_is_given() -> None:
    both = {**_BASE, "dsn": "host=x"}
    assert connection_options(Values(_BASE)).transport == "nats"
    assert connection_options(Values(both)).transport == "sql"
    assert connection_options(Values({**both, "transport": "nats"})).transport == "nats"
    for options in ({}, {**_BASE, "transport": "sql"}, {"dsn": "x", "transport": "nats"}):
        with pytest.raises(InvalidOption):
            connection_options(Values(options))


def test_everything_becomes_settings() -> None:
    options = {
        **_BASE,
        "auth.user": "ann",
        "auth.password": "env:PW",
        "tls.ca": "/ca.pem",
        "tls.verify": "false",
        "domain": "hub",
        "retries": "0",
        "timeout": "9s",
    }
    settings = connection_options(Values(options)).nats
    assert settings is not None
    assert settings.servers == ("nats://a:1", "tls://b")
    assert settings.password is not None
    assert settings.password.reference == "env:PW"
    assert settings.tls is not None
    assert (settings.tls.ca, settings.tls.verify, settings.tls.first) == ("/ca.pem", False, False)
    assert (settings.api_prefix, settings.retries, settings.timeout) == ("$JS.hub.API", 0, 9.0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"servers": "http://a"}, "http://a"),
        ({"servers": "nats://ann:pw@a"}, "without a user, which plans would show"),
        ({"servers": "nats://a:port"}, "option 'servers'"),
        ({"servers": "", "dsn": "x", "auth.token": "t"}, "to be left out where servers is not set"),
        ({"auth.token": "t", "auth.nkey": "SU"}, "one way to authenticate"),
        ({"auth.user": "u"}, "auth.user and auth.password together"),
        ({"auth.password": "p"}, "auth.user and auth.password together"),
        ({"tls.key": "k"}, "goes with tls.cert"),
        ({"domain": "d", "apiPrefix": "p"}, "either domain or apiPrefix"),
        ({"retries": "-1"}, "retries"),
    ],
)
def test_contradictory_values_are_refused(options: dict[str, str], expected: str) -> None:
    with pytest.raises(InvalidOption) as refused:
        connection_options(Values({**_BASE, **options}))
    assert expected in str(refused.value)
    assert "pw" not in str(refused.value)


def test_a_batch_read_has_no_consumer() -> None:
    options = {**_BASE, "stream": "S", "mode": "consumer", "consumer": "C"}
    with pytest.raises(InvalidOption, match="mode"):
        batch_options(options)
