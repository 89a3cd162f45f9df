"""The block `http` and its flags: what cannot be used is named."""

# Subject: HTTP sign-in, configuration

import dataclasses
import re
from pathlib import Path

import pytest

from core.errors import ConfigError
from core.units import Seconds
from gateway.settings import Settings
from jetgate.config_file import read_blocks
from jetgate.http_settings import DEFAULTS, with_flags
from tests.support.jetgate import ROOT

NONE = {"hosts": [], "proxies": [], "origins": [], "rate": ""}


def _read(tmp_path: Path, block: str) -> Settings:
    (tmp_path / "x.conf").write_text(f"http {{\n{block}\n}}")
    return read_blocks(str(tmp_path / "x.conf")).http


def test_every_limit_can_be_set(tmp_path: Path) -> None:
    for name, default in DEFAULTS.items():
        if isinstance(default, tuple):
            continue
        assert getattr(_read(tmp_path, f"{name}: 7"), name) == 7, name
    block = 'cors_origins: ["https://A.example"], trusted_proxies: ["10.0.0.0/8"]'
    read = _read(tmp_path, block + ", json_body_max: 2MiB, ticket_seconds: 1.5")
    assert (read.cors_origins, read.trusted_proxies) == (("https://a.example",), ("10.0.0.0/8",))
    assert (read.json_body_max, read.ticket_seconds) == (2 << 20, 1.5)


def test_every_limit_is_documented() -> None:
    page = (ROOT / "docs" / "http-auth.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| `?([^|`]*)`? \|", page, re.MULTILINE))

    assert set(rows) >= set(DEFAULTS), set(DEFAULTS) - set(rows)
    for name, default in DEFAULTS.items():
        if not isinstance(default, tuple):
            assert float(rows[name]) == default, name


@pytest.mark.parametrize(
    ("block", "wording"),
    [
        ("nothing: 1", 'x.conf:1:0: http: unknown field "nothing"; docs/http-auth.md lists them'),
        ('ack_key: "x"', 'unknown field "ack_key"'),
        ("json_body_max: 0", "http.json_body_max: 0: expected a number above 0"),
        ("json_body_max: -1", "http.json_body_max: -1: expected a number above 0"),
        ('json_body_max: "a"', "http.json_body_max: 'a': expected a number, such as 1048576"),
        ("json_body_max: true", "http.json_body_max: True: expected a number"),
        ("tickets_max: 1.5", "http.tickets_max: 1.5: expected a number"),
        ('cors_origins: "https://a"', "http.cors_origins: expected a list of texts"),
        ('cors_origins: ["*"]', "--http-cors-origin: '*' is no origin"),
        ('hosts: ["api.example:80"]', "--http-host: 'api.example:80' is no name"),
        ('hosts: ["*.example"]', "--http-host: '*.example' is no name"),
        ('trusted_proxies: ["10.0.0.1/8"]', "--http-trusted-proxy: 10.0.0.1/8 has host bits set"),
    ],
)
def test_unusable_values_are_named(tmp_path: Path, block: str, wording: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _read(tmp_path, block)
    assert wording in str(caught.value)


@pytest.mark.parametrize(
    "rate", ["600", "600/", "/60", "0/60", "6/0", "-6/60", "6/1.5", "a/b", "٣/1"]
)
def test_a_rate_has_two_numbers(rate: str) -> None:
    with pytest.raises(ConfigError, match=r"--http-rate-limit: .* expected requests/seconds"):
        with_flags(Settings(), **NONE | {"rate": rate})  # type: ignore[arg-type]


def test_flags_are_added_to_the_block() -> None:
    block = Settings(cors_origins=("https://a.example",), rate_requests=5, tickets_max=3)

    made = with_flags(
        block,
        hosts=["API.example"],
        proxies=["10.0.0.0/8"],
        origins=["https://b.example"],
        rate="600/60",
    )

    assert made == dataclasses.replace(
        block,
        hosts=("api.example",),
        trusted_proxies=("10.0.0.0/8",),
        cors_origins=("https://a.example", "https://b.example"),
        rate_requests=600,
        rate_seconds=Seconds(60.0),
    )
