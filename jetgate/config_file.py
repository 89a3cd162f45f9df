"""Reader of the file of `--config`, for `jetgate serve` and `jetgate dev`.

The file has the blocks `http`, `mappings` and `remotes`, which are too long for flags. The grammar
is that of nats-server's configuration files. All other settings are flags, and errors in the file.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path

from core.config.grammar import GrammarError, Item, parse, plain
from core.config.mappings import mappings_of
from core.errors import ConfigError
from core.pubsub.mappings import Mapping
from core.remote.settings import Remote, remotes_of
from gateway.settings import Settings
from jetgate.http_settings import settings_of

KEYS = ("http", "mappings", "remotes")


_KNOWN = f"{', '.join(KEYS[:-1])} and {KEYS[-1]}"


@dataclass(frozen=True, slots=True)
class Blocks:
    """The parsed blocks of a configuration file.

    Attributes:
        mappings: Subject mappings of the clients' publishes.
        remotes: Other NATS systems to connect to.
        http: Limits and rules of HTTP.
    """

    mappings: tuple[Mapping, ...] = ()
    remotes: tuple[Remote, ...] = ()
    http: Settings = field(default_factory=Settings)


def read_blocks(path: str) -> Blocks:
    """Read the blocks of a configuration file.

    Raises:
        ConfigError: The file is unreadable or invalid; the message names file and line.
    """
    try:
        top = parse(_text(path), path, _include, os.environ)
    except GrammarError as error:
        raise ConfigError("--config", f"{path}: {' '.join(str(error).split())}") from error
    mistakes: list[str] = []
    mappings, remotes, http = (_find(top, name) for name in ("mappings", "remotes", "http"))
    blocks = Blocks(
        () if mappings is None else mappings_of(mappings, mistakes),
        () if remotes is None else _remotes(remotes),
        Settings() if http is None else _http(http),
    )
    mistakes += [
        f'{item.place}: unknown field "{key}"; {_KNOWN} are known'
        for key, item in top.items()
        if key.lower() not in KEYS and not item.is_variable
    ]
    if mistakes:
        raise ConfigError("--config", mistakes[0].strip())
    return blocks


def _find(top: dict[str, Item], name: str) -> Item | None:
    found = [item for key, item in top.items() if key.lower() == name]
    return found[-1] if found else None


def _http(item: Item) -> Settings:
    try:
        return settings_of(plain(item))
    except ConfigError as error:
        raise ConfigError("--config", f"{item.place}: {error}") from None


def _remotes(item: Item) -> tuple[Remote, ...]:
    try:
        return remotes_of(plain(item))
    except ConfigError as error:
        raise ConfigError("--config", f"{item.place}: {error}") from None


def _include(path: str, including: str) -> tuple[str, str]:
    place = str(Path(including).parent / path)
    return place, _text(place)


def _text(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ConfigError("--config", f"cannot read {path}: {reason.lower()}") from error
