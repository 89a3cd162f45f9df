"""The contract as it is served: made when it is first asked for."""

from functools import cached_property
from importlib.metadata import version

import orjson

from gateway.contract import asyncapi, page
from gateway.contract.frames import table
from gateway.contract.openapi import Document, document
from gateway.routes import ROUTES

_INDENTED = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


class Reference:
    """What describes the operations of the façade."""

    @cached_property
    def document(self) -> Document:
        """The OpenAPI document."""
        return document(ROUTES, version("jetgate"))

    @cached_property
    def openapi(self) -> bytes:
        """The same as JSON."""
        return orjson.dumps(self.document, option=_INDENTED)

    @cached_property
    def asyncapi(self) -> bytes:
        """The AsyncAPI document as JSON."""
        described = asyncapi.document(ROUTES, version("jetgate"), table())
        return orjson.dumps(described, option=_INDENTED)

    @cached_property
    def page(self) -> str:
        """The reference for people."""
        return page.reference(self.document)

    @cached_property
    def problems(self) -> str:
        """The page of all problems."""
        return page.problems()

    def problem(self, kind: str) -> str | None:
        """The page about one kind of problem."""
        return page.problem(kind, self.document)
