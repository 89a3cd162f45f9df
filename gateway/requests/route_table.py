"""Lookup of the operation for a request, by method and path.

Paths are matched in percent-encoded form, and each parameter is decoded once after that. So `%2F`
and `%3A` within a parameter do not separate segments or verbs.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from gateway.formats.validation import percent_decoded
from gateway.http.problems import Problem
from gateway.requests.operation import Operation

Params = Mapping[str, str]

# Number of recent paths in the cache, and the largest length of one.
_CACHED_ROUTES_MAX = 4096
_CACHED_PATH_BYTES = 256
# Parameters whose values may have slashes, their maximum depth in a path, the bytes of a hint.
_WITH_SLASHES = ("key", "name", "subject")
_DEPTH = 4
_HINT_MAX = 200


class _Node:
    """A node of the tree of path segments. `verbs`: suffixes `:verb` after a parameter."""

    __slots__ = ("allow", "fixed", "methods", "parameter", "verbs")

    def __init__(self) -> None:
        self.fixed: dict[bytes, _Node] = {}
        self.parameter: tuple[str, _Node] | None = None
        self.verbs: dict[bytes, tuple[str, _Node]] = {}
        self.methods: dict[str, Operation] = {}
        self.allow = ""


class Table:
    """The route table as a tree of path segments. Raises ValueError if two operations are equal."""

    def __init__(self, routes: Iterable[Operation]) -> None:
        self._root = _Node()
        for operation in routes:
            node = self._root
            for segment in operation.path.strip("/").split("/"):
                node = _child(node, segment)
            if operation.method in node.methods:
                raise ValueError(f"two operations at {operation.method} {operation.path}")
            node.methods[operation.method] = operation
            node.allow = _allow(node)
        self._find_cached = lru_cache(_CACHED_ROUTES_MAX)(self._find)

    def find(self, method: str, raw_path: bytes) -> tuple[Operation | None, Params, str]:
        """Return the operation, its path parameters, and the value of the header Allow for the
        path.

        The operation is None for the method OPTIONS. Raises Problem 404 for an unknown path, 405
        for a wrong method, 400 for invalid percent-encoding.
        """
        if len(raw_path) > _CACHED_PATH_BYTES:
            return self._find(method, raw_path)
        return self._find_cached(method, raw_path)

    def _find(self, method: str, raw_path: bytes) -> tuple[Operation | None, Params, str]:
        node, raw = self._walk(raw_path)
        if node is None or not node.methods:
            raise Problem(404, "no-such-route", f"nothing is at this path{self._hint(raw_path)}")
        allow = node.allow
        if method == "OPTIONS":
            return None, {}, allow
        operation = node.methods.get("GET" if method == "HEAD" else method)
        if operation is None:
            detail = f"this path takes {allow}"
            raise Problem(405, "method-not-allowed", detail, headers={"Allow": allow})
        params = {key: percent_decoded(value, key) for key, value in raw.items()}
        return operation, MappingProxyType(params), allow

    def _hint(self, raw_path: bytes) -> str:
        """Return a hint at the intended path (a slash to encode or to remove); empty if there is
        none.
        """
        *names, end = segments = raw_path[1:].split(b"/")
        if not end and names and self._is_there(b"/" + b"/".join(names)):
            return ": leave out the slash at its end"
        for at in range(min(len(names), _DEPTH)):
            meant = b"/" + b"/".join((*segments[:at], b"%2F".join(segments[at:])))
            _, raw = self._walk(meant)
            if self._is_there(meant) and any(b"%2F" in raw.get(key, b"") for key in _WITH_SLASHES):
                shown = meant.decode("latin-1")
                shown = shown if len(shown) <= _HINT_MAX else f"...{shown[-_HINT_MAX:]}"
                return f": a slash in a name is %2F, as in {shown}"
        return ""

    def _is_there(self, raw_path: bytes) -> bool:
        node, _ = self._walk(raw_path)
        return node is not None and bool(node.methods)

    def _walk(self, raw_path: bytes) -> tuple[_Node | None, dict[str, bytes]]:
        raw: dict[str, bytes] = {}
        node = self._root
        if raw_path[:1] != b"/":
            return None, raw
        for segment in raw_path[1:].split(b"/"):
            following = node.fixed.get(segment)
            if following is None:
                head, colon, verb = segment.rpartition(b":")
                if colon and verb in node.verbs:
                    key, following = node.verbs[verb]
                    segment = head
                elif node.parameter is not None and segment:
                    key, following = node.parameter
                else:
                    return None, raw
                raw[key] = segment
            node = following
        return node, raw


def _child(node: _Node, segment: str) -> _Node:
    if not segment.startswith("{"):
        return node.fixed.setdefault(segment.encode(), _Node())
    key, _, verb = segment[1:].partition("}")
    if verb:
        return node.verbs.setdefault(verb.removeprefix(":").encode(), (key, _Node()))[1]
    if node.parameter is None:
        node.parameter = (key, _Node())
    assert node.parameter[0] == key, "one name for one place in a path"
    return node.parameter[1]


def _allow(node: _Node) -> str:
    methods = set(node.methods) | {"OPTIONS"}
    if "GET" in methods:
        methods.add("HEAD")
    return ", ".join(sorted(methods))
