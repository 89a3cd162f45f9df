"""The API reference as the HTTP server shows it; each part is generated at its first use."""

from functools import cached_property
from importlib.metadata import version

import orjson

from gateway.contract import asyncapi, page
from gateway.contract.frames import table
from gateway.contract.openapi import Document, document
from gateway.routes import ROUTES

_INDENTED = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE


class Reference:
    """The OpenAPI and AsyncAPI documents and HTML pages that describe the HTTP operations."""

    @cached_property
    def document(self) -> Document:
        """The OpenAPI document as a dict."""
        return document(ROUTES, version("jetgate"))

    @cached_property
    def openapi(self) -> bytes:
        """The OpenAPI document as indented JSON."""
        return orjson.dumps(self.document, option=_INDENTED)

    @cached_property
    def asyncapi(self) -> bytes:
        """The AsyncAPI document as indented JSON."""
        described = asyncapi.document(ROUTES, version("jetgate"), table())
        return orjson.dumps(described, option=_INDENTED)

    @cached_property
    def page(self) -> str:
        """The HTML page of all operations and schemas."""
        return page.reference(self.document)

    @cached_property
    def problems(self) -> str:
        """The HTML page of all problems."""
        return page.problems()

    def problem(self, kind: str) -> str | None:
        """Return the HTML page about one kind of problem; None if the kind is unknown."""
        return page.problem(kind, self.document)
