"""Handlers of the console's files; they are public and need no authentication."""

from starlette.responses import Response

from gateway import entity_tags
from gateway.call import Call
from gateway.console.files import HEADERS, File
from gateway.problems import Problem


async def show_console(call: Call) -> Response:
    """Show the console."""
    return _answer(call, call.gateway.console.page, "text/html")


async def console_style(call: Call) -> Response:
    """Return the style sheet of the console."""
    return _answer(call, call.gateway.console.style, "text/css")


async def console_module(call: Call) -> Response:
    """Return a script of the console."""
    found = call.gateway.console.modules.get(call.params["module"])
    if found is None:
        raise Problem(404, "no-such-route", "the console has no such script")
    return _answer(call, found, "text/javascript")


def _answer(call: Call, file: File, media_type: str) -> Response:
    headers = HEADERS | {"ETag": file.etag}
    if entity_tags.is_known(call, file.etag):
        return Response(None, 304, headers=headers)
    return Response(file.body, headers=headers, media_type=media_type)
