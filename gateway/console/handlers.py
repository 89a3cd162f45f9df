"""HTTP handlers of the console's files, which need no authentication."""

from starlette.responses import Response

from gateway.console.files import HEADERS, Console, File
from gateway.http.problems import Problem
from gateway.requests import entity_tags
from gateway.requests.call import Call

_CONSOLE = Console()


async def show_console(call: Call) -> Response:
    """Show the web console."""
    return _answer(call, _CONSOLE.page, "text/html")


async def console_style(call: Call) -> Response:
    """Return the style sheet of the web console."""
    return _answer(call, _CONSOLE.style, "text/css")


async def console_module(call: Call) -> Response:
    """Return a script of the web console."""
    found = _CONSOLE.modules.get(call.params["module"])
    if found is None:
        raise Problem(404, "no-such-route", "the console has no such script")
    return _answer(call, found, "text/javascript")


def _answer(call: Call, file: File, media_type: str) -> Response:
    headers = HEADERS | {"ETag": file.etag}
    if entity_tags.is_known(call, file.etag):
        return Response(None, 304, headers=headers)
    return Response(file.body, headers=headers, media_type=media_type)
