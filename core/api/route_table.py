"""Lookup of the table row (`Route`) that serves an API request, by the tokens of its subject."""

from collections.abc import Iterable

from core.api.routes import Route

_LITERALS_MAX = 3
_PREFIX_TOKENS = 2


class RouteTable:
    """The routes of API requests, indexed by the tokens of their subjects except wildcards."""

    def __init__(self, routes: Iterable[Route]) -> None:
        # Literal tokens -> (route, count of names after them, whether more names may follow).
        self._routes: dict[tuple[str, ...], list[tuple[Route, int, bool]]] = {}
        for route in routes:
            tokens = route.subject.split(".")
            literals = tuple(token for token in tokens if token not in ("*", ">"))
            names = len(tokens) - len(literals)
            row = (route, names, tokens[-1] == ">")
            self._routes.setdefault(literals, []).append(row)

    def find(self, subject: bytes) -> tuple[Route, tuple[str, ...]] | None:
        """Return the route of a full subject, and the tokens that match its wildcards.

        None if there is no route.
        """
        tokens = subject.decode("utf-8", "replace").split(".")[_PREFIX_TOKENS:]
        for count in range(min(len(tokens), _LITERALS_MAX), 0, -1):
            for route, names, is_open in self._routes.get(tuple(tokens[:count]), ()):
                left = len(tokens) - count
                if left == names or (is_open and left > names):
                    return route, tuple(tokens[count:])
        return None
