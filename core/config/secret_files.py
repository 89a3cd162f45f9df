"""Secrets that a command takes from files: command lines show in the list of processes."""

from pathlib import Path

from core.errors import ConfigError


def secret_of(flag: str, value: str, file: str) -> str:
    """Return a secret: what a flag says, or what all of a file is.

    Line ends at the end of the file do not count.

    Args:
        flag: `--auth`; its file is that of `--auth-file`.
        value: of the flag, or of its variable; empty if not given.
        file: of the secret; empty if not given.

    Raises:
        ConfigError: both are given, or the file cannot be used; no part of it is shown.
    """
    if not file:
        return value
    if value:
        raise ConfigError(flag, f"and {flag}-file (or its variable) are both given")
    try:
        text = Path(file).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = (getattr(error, "strerror", None) or "it is no text").lower()
        raise ConfigError(f"{flag}-file", f"cannot read {file}: {reason}") from error
    if not text:
        raise ConfigError(f"{flag}-file", f"{file} is empty")
    return text
