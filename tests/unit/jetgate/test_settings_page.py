"""docs/operations/settings.md lists every flag, variable and timeout, with the default."""

# Subject: configuration

import re
from enum import Enum
from typing import Any

import typer.main

from core.auth.users import AUTH_TIMEOUT
from core.jetstream.direct.stored_get import _TIMEOUT_NS
from core.jetstream.group_committer import SLOW_S, TIMEOUT_S
from core.node.lease_times import LeaseTimes
from core.node.publish_gate import HOLD_S, START_S
from core.node.runtime import _DRAIN_S
from core.pubsub.limits import Limits
from core.storage.postgres.connect import _SETTINGS, CONNECT_TIMEOUT_S, Purpose
from core.storage.postgres.dsn import KeepAlive
from core.storage.postgres.hosts import _NEXT_AFTER_S
from core.storage.postgres.stored_messages import _STANDBY_S
from core.transport.session import HOLD_SECONDS
from dropin.config import flags as drop_in
from gateway.http.protocol import _LINGER_S
from gateway.http.startup import _HEAD_S, _HOLD_S
from jetgate.commands import command_line
from tests.support.jetgate import ROOT

PAGE = (ROOT / "docs/operations/settings.md").read_text()
COMMANDS = ("serve", "dev", "migrate", "doctor", "status", "cluster")


def _table(heading: str) -> list[list[str]]:
    """The cells of the rows of a section's table, without its head."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None or value == "":
        return "none"
    return f"`{value.value if isinstance(value, Enum) else value}`"


def _defined(name: str) -> set[tuple[str, str, str]]:
    group: Any = typer.main.get_command(command_line())
    command = group.commands[name]
    options = command.get_params(command.make_context(name, [], resilient_parsing=True))
    return {
        (option.opts[0], f"`{option.envvar}`" if option.envvar else "–", _default(option.default))
        for option in options
        if option.name != "help"
    }


def test_the_flags_are_those_of_the_commands() -> None:
    rows = _table("Flags of `jetgate`")
    for name in COMMANDS:
        listed = {
            (flag.strip("`"), variable, default)
            for flag, variable, default, commands, _ in rows
            if f"`{name}`" in commands
        }
        assert listed == _defined(name), name


def test_the_flags_in_which_the_drop_in_differs_are_those_it_treats_apart() -> None:
    meanings = {
        re.sub(r"^-+", "", flag): description
        for flags, description in _table("Flags of `jetgate-nats-server`")
        for flag in re.findall(r"`([^`]+)`", flags)
    }

    def listed(description: str) -> set[str]:
        names = {drop_in._FLAGS[flag][0] for flag, said in meanings.items() if said == description}
        return names - {"user", "pass", "auth"}

    refused = {name for name, take in drop_in._SPECIAL.items() if "_refused" in take.__qualname__}
    assert listed("refused") == refused
    known = {name for name, _ in drop_in._FLAGS.values()}
    heeded = {"user", "pass", "auth", "config", "test", "signal", "help", "version", "help_tls"}
    assert listed("no effect") == known - drop_in._PLAIN - set(drop_in._SPECIAL) - heeded


def test_every_variable_that_the_product_names_is_listed() -> None:
    sources = [
        path.read_text()
        for package in ("core", "gateway", "jetgate", "nats_server")
        for path in (ROOT / package).rglob("*.py")
    ]
    named = {
        name
        for text in sources
        for name in re.findall(r'"(JETGATE_[A-Z_]+|NOTIFY_SOCKET|XDG_CACHE_HOME)"', text)
    }
    assert {"JETGATE_DSN", "NOTIFY_SOCKET", "XDG_CACHE_HOME"} <= named
    assert [name for name in sorted(named) if f"`{name}`" not in PAGE] == []


def test_timeouts_are_those_of_the_product() -> None:
    """The third column of the page, from top to bottom."""
    times, keep, limits = LeaseTimes(), KeepAlive(), Limits()
    second = 1_000_000_000
    expected = [
        *(CONNECT_TIMEOUT_S, _NEXT_AFTER_S, keep.user_timeout_ms / 1000),
        *(times.late / second, times.answer / second, (times.ttl - times.margin) / second),
        *(times.stale / second, SLOW_S, TIMEOUT_S),
        float(_SETTINGS[Purpose.READ]["statement_timeout"].rstrip("s")),
        *(_TIMEOUT_NS / second, _STANDBY_S),
        float(_SETTINGS[Purpose.COMMIT]["idle_in_transaction_session_timeout"].rstrip("s")),
        *(AUTH_TIMEOUT, limits.ping_interval, limits.write_deadline),
        *(HOLD_S, START_S, HOLD_SECONDS),
        *(0, _HOLD_S, _HEAD_S, _LINGER_S, _DRAIN_S),
    ]

    shown = [row[2] for row in _table("Timeouts") if row[2]]

    assert [float(cell.partition(",")[0]) for cell in shown] == expected
