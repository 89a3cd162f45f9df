"""Recorded HTTP requests and responses, which the OpenAPI document shows as examples.

They are in the file `examples.json`. `python -m tests.gateway.examples` records them from a running
server.
"""

from importlib.resources import files
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from gateway.requests.operation import Operation

Document = dict[str, Any]


class Example(Struct, kw_only=True, omit_defaults=True):
    """One recorded HTTP request and its response.

    A body that is not JSON is text; UNSET: no body. `headers` are the request headers that the
    example is about.
    """

    operation: str
    title: str
    params: dict[str, str] = {}
    query: dict[str, str] = {}
    headers: dict[str, str] = {}
    media_type: str = ""
    body: Any | UnsetType = UNSET
    status: int = 0
    answer_type: str = ""
    answer: Any | UnsetType = UNSET


class Examples:
    """All recorded requests and responses for the OpenAPI document, by operation id."""

    def __init__(self) -> None:
        self._by_operation: dict[str, list[Example]] = {}
        for example in recorded():
            self._by_operation.setdefault(example.operation, []).append(example)

    def show(self, row: Operation, operation: Document) -> None:
        """Add the examples of an operation to its OpenAPI operation object, in place."""
        for number, example in enumerate(self._by_operation.get(row.id, ())):
            name = f"example{number + 1}"
            if not isinstance(example.body, UnsetType):
                content = operation["requestBody"]["content"]
                _put(content, example.media_type, name, example, example.body)
            answer = operation["responses"][str(example.status)]
            if not isinstance(example.answer, UnsetType) and "content" in answer:
                _put(answer["content"], example.answer_type, name, example, example.answer)


def recorded() -> list[Example]:
    """Return the recorded requests and responses in `examples.json`."""
    text = files("gateway.contract").joinpath("examples.json").read_bytes()
    return msgspec.json.decode(text, type=list[Example])


def _put(content: Document, media_type: str, name: str, example: Example, value: Any) -> None:
    place = content.get(media_type) or content.get("*/*") or content["application/octet-stream"]
    place.setdefault("examples", {})[name] = {"summary": example.title, "value": value}
