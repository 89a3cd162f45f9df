"""Reading of secrets from files, because command lines are visible in process lists."""

from pathlib import Path

from core.errors import ConfigError


def secret_of(flag: str, value: str, file: str) -> str:
    """Return a secret: the value of a flag, or the contents of a file.

    Line ends at the end of the file are removed.

    Args:
        flag: Name of the flag, such as `--auth`; the flag for the file is then `--auth-file`.
        value: Value of the flag, or of its environment variable; empty if not given.
        file: Path of the file; empty if not given.

    Raises:
        ConfigError: Both are given, or the file cannot be read or is empty. The text contains no
            part of the secret.
    """
    if not file:
        return value
    if value:
        raise ConfigError(
            flag, f"given together with {flag}-file (or its variable); expected one of them"
        )
    try:
        text = Path(file).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = (getattr(error, "strerror", None) or "it is no text").lower()
        raise ConfigError(f"{flag}-file", f"cannot read {file}: {reason}") from error
    if not text:
        raise ConfigError(f"{flag}-file", f"{file} is empty")
    return text
