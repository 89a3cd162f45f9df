"""Reading a feed as it comes: lines of JSON, or server-sent events."""

import http.client
import json
from typing import Any, Self

from tests.gateway.web import Web, names


class FeedReader:
    """One feed; a context manager. A heartbeat where something was to come is a failure."""

    def __init__(self, web: Web, path: str, **headers: str) -> None:
        self._connection = http.client.HTTPConnection(*web.address, timeout=30)
        self._connection.request("GET", path, headers=names(headers))
        self.answer = self._connection.getresponse()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self.answer.close()

    def line(self) -> dict[str, Any]:
        """The next line."""
        line = self.answer.readline()
        assert line, "the feed is over"
        shown: dict[str, Any] = json.loads(line)
        assert shown["event"] != "heartbeat", "nothing came"
        return shown

    def until(self, event: str) -> list[dict[str, Any]]:
        """All lines up to one of this kind, which is left out."""
        lines: list[dict[str, Any]] = []
        while (line := self.line())["event"] != event:
            lines.append(line)
        return lines

    def event(self) -> tuple[str, str, dict[str, Any]]:
        """The next server-sent event: its kind, its id and its data."""
        fields: dict[str, str] = {}
        while line := self.answer.readline().decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
        return fields["event"], fields["id"], json.loads(fields["data"])
