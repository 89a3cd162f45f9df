"""Which methods of the official client were called, and with which of their parameters."""

import functools
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, get_overloads

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.js.api import ObjectInfo, RawStreamMsg, StreamsListIterator
from nats.js.client import JetStreamContext
from nats.js.kv import KeyValue
from nats.js.manager import JetStreamManager
from nats.js.object_store import ObjectStore
from nats.micro.request import Request
from nats.micro.service import Group, Service

WATCHED: tuple[type, ...] = (
    Client,
    Subscription,
    Msg,
    JetStreamManager,
    JetStreamContext,
    JetStreamContext.PushSubscription,
    JetStreamContext.PullSubscription,
    KeyValue,
    KeyValue.KeyWatcher,
    KeyValue.BucketStatus,
    ObjectStore,
    ObjectStore.ObjectWatcher,
    ObjectStore.ObjectStoreStatus,
    ObjectInfo,
    RawStreamMsg,
    StreamsListIterator,
    Service,
    Group,
    Request,
)
_SPECIAL = {"__aiter__", "__anext__", "__aenter__", "__aexit__", "__next__"}


class Usage:
    """Watches the public methods and properties of the client's classes until it is told to end."""

    def __init__(self) -> None:
        self.calls: defaultdict[str, set[str]] = defaultdict(set)
        self._restore: list[tuple[type, str, Any]] = []

    def start(self) -> None:
        """Watch."""
        for cls in WATCHED:
            for name, member in _members(cls):
                self._restore.append((cls, name, member))
                setattr(cls, name, self._watched(f"{cls.__qualname__}.{name}", member))

    def stop(self) -> None:
        """Leave the classes as they were."""
        for cls, name, member in self._restore:
            setattr(cls, name, member)

    def _watched(self, key: str, member: Any) -> Any:
        if isinstance(member, property):
            getter = self._counted(key, member.fget)
            return property(getter, member.fset, member.fdel, member.__doc__)
        if isinstance(member, classmethod | staticmethod):
            return type(member)(self._counted(key, member.__func__))
        return self._counted(key, member)

    def _counted(self, key: str, function: Any) -> Callable[..., Any]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            given = signature.bind_partial(*args, **kwargs).arguments
            self.calls[key].update(given)
            for more in (p for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD):
                self.calls[key].update(given.get(more.name, ()))
            return function(*args, **kwargs)

        return call

    def missing(self) -> set[str]:
        """What was never called, as `Class.method`, or given, as `Class.method(parameter)`."""
        found = set()
        for key, parameters in everything():
            if key not in self.calls:
                found.add(key)
            found |= {f"{key}({name})" for name in parameters - self.calls[key]}
        return found


def everything() -> Iterator[tuple[str, set[str]]]:
    """Every public member of the watched classes with the names of its parameters."""
    for cls in WATCHED:
        for name, member in _members(cls):
            key = f"{cls.__qualname__}.{name}"
            if isinstance(member, property):
                yield key, set()
                continue
            function = getattr(member, "__func__", member)
            names: set[str] = set()
            for form in (function, *get_overloads(function)):
                parameters = list(inspect.signature(form).parameters.values())
                names |= {p.name for p in parameters if p.kind not in (p.VAR_KEYWORD,)}
            yield key, names - {"self", "cls"}


def _members(cls: type) -> list[tuple[str, Any]]:
    kinds = (FunctionType, property, classmethod, staticmethod)
    return [
        (name, member)
        for name, member in vars(cls).items()
        if isinstance(member, kinds) and (not name.startswith("_") or name in _SPECIAL)
    ]
