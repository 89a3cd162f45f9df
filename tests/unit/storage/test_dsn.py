"""Connection strings: read as libpq reads them, refused by name, and never shown with a secret."""

# Subject: storage, database connections

import re
from pathlib import Path

import pytest

from core.errors import ConfigError
from core.storage.postgres.conninfo import split
from core.storage.postgres.dsn import Dsn, Host, read
from core.storage.postgres.passfile import password_for
from tests.support import libpq

FORMS = [
    "postgresql://",
    "postgresql:///db",
    "postgres://host",
    "postgresql://host/",
    "postgresql://host:5433/db",
    "postgresql://user@host/db",
    "postgresql://user:@host/db",
    "postgresql://us%40er:p%2Fw%25@host/d%20b",
    "postgresql://u:p:w@h/db",
    "postgresql://u:p?w#x@h/db",
    "postgresql://u:p&w=x@h/db",
    "postgresql://h1:5432,h2:5433/db?target_session_attrs=primary",
    "postgresql://h1,h2:5433,[::1]:5434/db",
    "postgresql://[2001:db8::1]/db",
    "postgresql://%2Fvar%2Frun/db",
    "postgresql:///db?host=/tmp&port=5433&user=u&password=p%26w",
    "postgresql://host/db?sslmode=verify-full&sslrootcert=/ca.pem&application_name=a%20b",
    "postgresql://host/db?ssl=true",
    "postgresql://host?connect_timeout=3",
    "host=h dbname=d",
    "host = h  dbname= d",
    "host='h' password='a b' user='it\\'s' dbname='back\\\\slash'",
    "host=h password= user=u",
    "host=h password=''",
    "host=h password=a\\ b",
    "host=h1,h2 port=1,2 keepalives_idle=7",
    " host=h ",
]
REFUSED = [
    "postgresql://u:p%zz@h/db",
    "postgresql://u:p%4@h/db",
    "postgresql://u:p%00@h/db",
    "postgresql://h/db?nope=1",
    "postgresql://h/db?password",
    "postgresql://h/db?password=a=b",
    "postgresql://[::1/db",
    "host",
    "host=h nope=1",
    "host=h password='open",
    "host=h dbname",
]


@pytest.mark.parametrize("text", FORMS)
def test_a_connection_string_means_the_same_to_libpq(text: str) -> None:
    expected = libpq.parsed(text)
    assert expected is not None

    found = {keyword: value for keyword, value in split(text, "--dsn").items() if value}

    assert found == {keyword: value for keyword, value in expected.items() if value}


@pytest.mark.parametrize("text", REFUSED)
def test_strings_that_libpq_refuses_are_refused(text: str) -> None:
    assert libpq.parsed(text) is None
    with pytest.raises(ConfigError):
        split(text, "--dsn")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("postgresql://u:SECRET%zz@h/db", "--dsn: the password: % is followed by two hexadecimal"),
        ("postgresql://u:x%zz@h/SECRET%zz", "--dsn: the password: "),
        ("postgresql://u:SEC@RET@h/db", "there is an @ behind the host"),
        ("postgresql://u:SEC/RET@h/db", "there is an @ behind the host"),
        ("postgresql://h/db?password=SEC&RET", "what follows password= is no key=value"),
        ("postgresql://h/db?password=a&SECRET=1", "an option behind the password is unknown"),
        ("host=h password=a SECRET", "what follows password= is no key=value"),
        ("host=h password=a SECRET=1", "an option behind the password is unknown"),
        ("host=h password='SECRET", "the value of password is quoted wrongly"),
        ("postgresql://h/db?nope=1", 'option "nope" is unknown to libpq'),
        ("postgresql://h:SECRET/db", "port: expected a number from 1 to 65535"),
        ("postgresql://h:0/db", "port: expected a number from 1 to 65535"),
        ("postgresql://a,b,c/db?port=1,2", "port: 2 of them for 3 hosts"),
        ("postgresql://h/db?sslmode=full", "sslmode: expected disable, allow, prefer, require"),
        ("postgresql://h/db?connect_timeout=soon", "connect_timeout: expected a number"),
        ("postgresql://h/db?channel_binding=require", "channel_binding=require cannot be had: ssl"),
        ("postgresql://h/db?hostaddr=1.2.3.4", "hostaddr cannot be had: name the address as host"),
        (
            "postgresql://h/db?target_session_attrs=standby",
            "=standby cannot be had: writes need",
        ),
        ("postgresql://h/db?requirepeer=postgres", "requirepeer cannot be had"),
        ("postgresql://h/db?sslrootcert=system&sslmode=require", "needs sslmode=verify-full"),
        ("postgresql://h/db?sslnegotiation=direct", "needs sslmode=require or more"),
        ("mysql://u:SECRET@h/db", "--dsn: expected postgresql://user@host:port/name, or host=..."),
    ],
)
def test_unusable_settings_are_named_and_no_value_is_shown(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(text, environment={})

    assert words in str(refused.value)
    assert "SECRET" not in str(refused.value)
    assert "RET" not in str(refused.value)


def test_no_text_shows_a_password() -> None:
    dsn = read(
        "postgresql://u:SECRET@h1,h2:1/db?sslpassword=SECRET&sslrootcert=/ca", environment={}
    )

    assert "SECRET" not in f"{dsn!r} {dsn.address} {dsn.url()} {dsn.url(user='x')}"
    assert dsn.password(dsn.hosts[0]) == "SECRET"
    assert dsn.address == "h1,h2:1/db"
    assert read(dsn.url(), environment={}).hosts == dsn.hosts


def test_settings_of_a_service_precede_the_environment_and_follow_the_text(
    tmp_path: Path,
) -> None:
    file = tmp_path / "services"
    file.write_text(
        "# all of ours\n[other]\nhost=wrong\n[ours]\nhost=db1,db2\nuser = jet\n\nport=5433\n"
    )
    environment = {
        "PGSERVICEFILE": str(file),
        "PGSERVICE": "ours",
        "PGUSER": "somebody",
        "PGDATABASE": "messages",
        "PGPORT": "1",
    }
    file.write_text(file.read_text().replace("user = jet", "user=jet"))

    by_variable = read("postgresql:///?port=5434", environment=environment)
    by_text = read("service=ours", environment={"PGSERVICEFILE": str(file)})

    assert by_variable.hosts == (Host("db1", 5434), Host("db2", 5434))
    assert (by_variable.user, by_variable.database) == ("jet", "messages")
    assert (by_text.user, by_text.database) == ("jet", "jet")
    assert by_text.hosts[1] == Host("db2", 5433)
    assert by_text.wants_primary


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "services is not there"),
        ("[other]\nhost=h\n", "is neither in"),
        ("[ours]\nhost=h\nSECRET\n", "services, line 3: expected a keyword of libpq, =, and"),
        ("[ours]\nsslmode=full\n", "services, line 2: sslmode: expected disable"),
    ],
)
def test_a_service_that_cannot_be_used_names_file_and_line(
    tmp_path: Path, content: str | None, words: str
) -> None:
    file = tmp_path / "services"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError) as refused:
        read("service=ours", environment={"PGSERVICEFILE": str(file)})

    assert words in str(refused.value)
    assert "SECRET" not in str(refused.value)


def test_a_variable_that_cannot_be_used_is_named() -> None:
    with pytest.raises(ConfigError, match="PGSSLMODE: sslmode: expected disable"):
        read("postgresql://h/db", environment={"PGSSLMODE": "full"})


def test_settings_of_a_connection_are_those_of_the_text() -> None:
    dsn = read(
        "postgresql://h/db?keepalives_idle=30&keepalives=1&connect_timeout=4"
        "&options=-c%20work_mem%3D8MB&application_name=shop&sslrootcert=system",
        environment={},
    )

    assert (dsn.keep_alive.idle, dsn.keep_alive.count) == (30, 3)
    assert (dsn.connect_timeout, dsn.application_name) == (4.0, "shop")
    assert dsn.settings == {"options": "-c work_mem=8MB"}
    assert dsn.tls.mode == "verify-full"
    assert not dsn.wants_primary


def test_a_password_comes_from_the_line_that_fits(tmp_path: Path) -> None:
    file = tmp_path / "pgpass"
    file.write_text(
        "# host:port:database:user:password\n"
        "db:5432:other:jet:wrong\n"
        "db:*:messages:jet:with\\:colon and \\\\\n"
        "localhost:*:*:*:of the socket\n"
        "*:*:*:*:rest\n"
    )
    file.chmod(0o600)

    def found(host: str) -> str | None:
        return password_for(str(file), host, 5432, "messages", "jet")

    assert found("db") == "with:colon and \\"
    assert found("/var/run/postgresql") == "of the socket"
    assert found("elsewhere") == "rest"
    file.chmod(0o640)
    assert found("db") is None


def test_a_file_of_a_password_comes_first_and_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("first\n")
    dsn: Dsn = read("postgresql://u:other@h/db", environment={}, password_file=str(file))

    assert dsn.password(dsn.hosts[0]) == "first"
    file.write_text("second\n")
    assert dsn.password(dsn.hosts[0]) == "second"


def test_the_page_shows_the_messages() -> None:
    page = (Path(__file__).parents[3] / "docs/operations/dsn.md").read_text()
    [text] = re.findall(r"^\$ jetgate migrate --dsn '(.+)'$", page, re.MULTILINE)
    with pytest.raises(ConfigError) as refused:
        read(text, environment={})

    assert f"\njetgate: {refused.value}\n" in page
    forms = re.findall(r"^jetgate serve --dsn '(.+)'$", page, re.MULTILINE)
    assert forms
    for form in forms:
        assert split(form, "--dsn")
