"""Validation of subject mappings: source and destination of transforms and of republishing.

A destination refers to wildcards of the source as `$1` or `{{wildcard(1)}}`, or applies a mapping
function to them. `core.model.transform` applies mappings that were checked here. Error texts are
those of nats-server.
"""

import re
from collections.abc import Callable

from core.goinput import parse_int

_BAD_SUBJECT = "invalid subject"
_PREFIX = "invalid mapping destination: "
_INVALID = _PREFIX + "invalid transform"
_UNKNOWN = _PREFIX + "unknown function"
_OUT_OF_RANGE = _PREFIX + "wildcard index out of range"
_TOO_FEW = _PREFIX + "not enough arguments passed to the function"
_TOO_MANY = _PREFIX + "too many arguments passed to the function"
_BAD_ARGUMENT = _PREFIX + "function argument is invalid or in the wrong format"
_INT32_MAX = 2**31 - 1

_COMMA = re.compile(r",[\t\n\f\r ]*")


class MappingError(ValueError):
    """Raised for an invalid subject mapping; the text is the reason."""


def _function(name: str) -> re.Pattern[str]:
    # White space as Go defines it.
    space = r"[\t\n\f\r ]*"
    return re.compile(r"\{\{" + space + name + space + r"\((.*)\)" + space + r"\}\}")


def check_mapping(src: str, dest: str) -> None:
    """Check that messages on `src` can be mapped to the destination `dest`.

    Raises MappingError for an invalid token or function, or as `check_transform` does.
    """
    if not dest:
        return
    tokens = dest.split(".")
    for index, token in enumerate(tokens):
        if not token or (">" in tokens[:index]):
            raise _error_in(_INVALID, token)
        if _is_function(token):
            if not any(pattern.search(token) for _, pattern, _ in _FUNCTIONS):
                raise _error_in(_UNKNOWN, token)
        elif any(char in "\t\n\f\r " for char in token):
            raise MappingError(_INVALID)
    check_transform(src, dest)


def check_transform(src: str, dest: str) -> None:
    """Check that `src` has the wildcards to which `dest` refers, and that both are valid subjects.

    `check_mapping` includes this check. Raises MappingError if it fails.
    """
    if not dest:
        return
    source, target = (src or ">").split("."), dest.split(".")
    whole = ">" in source
    good = _is_well_formed(source) and _is_well_formed(target)
    if not good or "*" in target or whole != (">" in target):
        raise MappingError(_BAD_SUBJECT)
    wildcards = source.count("*")
    for token in target:
        indexes, needs_source = _placeholder(token)
        if wildcards == 0 and not whole:
            if needs_source:
                raise _error_in(_OUT_OF_RANGE, token)
            continue
        for index in indexes:
            if index > wildcards:
                raise _error_in(_OUT_OF_RANGE, f"{token}: [{index}]")


def _is_well_formed(tokens: list[str]) -> bool:
    return all(tokens) and ">" not in tokens[:-1]


def _is_function(token: str) -> bool:
    return len(token) > 4 and token.startswith("{{") and token.endswith("}}")


def _error_in(text: str, token: str) -> MappingError:
    return MappingError(f"{text} in {token}" if token else text)


def _placeholder(token: str) -> tuple[list[int], bool]:
    """Return the numbers of the wildcards that a token uses, and whether it needs a wildcard."""
    if len(token) > 1 and token[0] == "$":
        index = parse_int(token[1:])
        return ([], False) if index is None else ([index], True)
    if not _is_function(token):
        return [], False
    for _, pattern, read in _FUNCTIONS:
        found = pattern.search(token)
        if found:
            return read(token, _COMMA.split(found.group(1)))
    raise _error_in(_UNKNOWN, token)


def function_call(token: str) -> tuple[str, list[str]] | None:
    """Return the name of the function in a destination token, in lower case, and its arguments.

    None if the token is no function call.
    """
    if not _is_function(token):
        return None
    for name, pattern, _ in _FUNCTIONS:
        found = pattern.search(token)
        if found:
            return name, _COMMA.split(found.group(1))
    return None


def _integer(token: str, text: str, limit: int = 2**63 - 1) -> int:
    number = parse_int(text.strip(" "))
    if number is None or not -limit - 1 <= number <= limit:
        raise _error_in(_BAD_ARGUMENT, token)
    return number


def _check_count(token: str, arguments: list[str], count: int) -> None:
    if len(arguments) < count:
        raise _error_in(_TOO_FEW, token)
    if len(arguments) > count:
        raise _error_in(_TOO_MANY, token)


def _wildcard(token: str, arguments: list[str]) -> tuple[list[int], bool]:
    if arguments == [""]:
        raise _error_in(_TOO_FEW, token)
    _check_count(token, arguments, 1)
    return [_integer(token, arguments[0])], True


def _partition(token: str, arguments: list[str]) -> tuple[list[int], bool]:
    if _integer(token, arguments[0]) > _INT32_MAX:
        raise _error_in(_BAD_ARGUMENT, token)
    return [_integer(token, argument) for argument in arguments[1:]], False


def _index_and_number(token: str, arguments: list[str]) -> tuple[list[int], bool]:
    _check_count(token, arguments, 2)
    index = _integer(token, arguments[0])
    _integer(token, arguments[1], _INT32_MAX)
    return [index], True


def _split(token: str, arguments: list[str]) -> tuple[list[int], bool]:
    _check_count(token, arguments, 2)
    index = _integer(token, arguments[0])
    if " " in arguments[1] or "." in arguments[1]:
        raise _error_in(_BAD_ARGUMENT, token)
    return [index], True


def _random(token: str, arguments: list[str]) -> tuple[list[int], bool]:
    if len(arguments) != 1:
        raise _error_in(_TOO_FEW, token)
    if _integer(token, arguments[0]) > _INT32_MAX:
        raise _error_in(_BAD_ARGUMENT, token)
    return [], False


_Arguments = Callable[[str, list[str]], tuple[list[int], bool]]
"""Checks the arguments of a function call in a token; returns the same as `_placeholder`."""

_FUNCTIONS: tuple[tuple[str, re.Pattern[str], _Arguments], ...] = (
    ("wildcard", _function("[wW]ildcard"), _wildcard),
    ("partition", _function("[pP]artition"), _partition),
    ("splitfromleft", _function("[sS]plit[fF]rom[lL]eft"), _index_and_number),
    ("splitfromright", _function("[sS]plit[fF]rom[rR]ight"), _index_and_number),
    ("slicefromleft", _function("[sS]lice[fF]rom[lL]eft"), _index_and_number),
    ("slicefromright", _function("[sS]lice[fF]rom[rR]ight"), _index_and_number),
    ("right", _function("[rR]ight"), _index_and_number),
    ("left", _function("[lL]eft"), _index_and_number),
    ("split", _function("[sS]plit"), _split),
    ("random", _function("[rR]andom"), _random),
)
"""The mapping functions: name, pattern of a call, check of the arguments."""
