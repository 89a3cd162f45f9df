"""Groups of command line flags that several commands share, each a dataclass.

A command takes a group as one parameter. `grouped` turns each field of the group into a flag. Help,
environment variables and errors are the same as for ordinary parameters.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter
from typing import Any, get_type_hints


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """Return a typer command that calls a function.

    Each parameter of the function is a flag of the command. A parameter that is a group (a
    dataclass) becomes one flag for each of its fields.
    """
    hints = get_type_hints(function, include_extras=True)
    flags: list[Parameter] = []
    groups: dict[str, type[Any]] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if is_dataclass(hints[name]):
            groups[name] = hints[name]
            flags += _flags_of(hints[name])
        else:
            flags.append(
                Parameter(
                    name,
                    Parameter.KEYWORD_ONLY,
                    default=parameter.default,
                    annotation=hints[name],
                )
            )

    @wraps(function)
    def command(**given: Any) -> None:
        made = {
            name: group(**{each.name: given.pop(each.name) for each in fields(group)})
            for name, group in groups.items()
        }
        function(**given, **made)

    command.__signature__ = inspect.Signature(flags)  # type: ignore[attr-defined]
    command.__annotations__ = {flag.name: flag.annotation for flag in flags}
    return command


def _flags_of(group: type[Any]) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(group)
    ]
