"""HTTP routes of the web console: its page, style and scripts."""

from gateway.console import handlers
from gateway.requests.operation import RAW, Handler, Operation

_HTML = "text/html"
_CACHED = ("ETag", "Cache-Control")


def _file(id: str, path: str, handler: Handler, media_type: str, *problems: str) -> Operation:
    """Return the operation that serves one file of the console."""
    return Operation(
        id,
        "GET",
        path,
        handler,
        None,
        RAW,
        (200, 304),
        query=None,
        headers=("If-None-Match#tags",),
        shows={200: _CACHED, 304: _CACHED},
        problems=("bad-header", *problems),
        media_type=media_type,
        is_open=True,
    )


CONSOLE_ROUTES: tuple[Operation, ...] = (
    _file("showConsole", "/", handlers.show_console, _HTML),
    _file("readConsoleStyle", "/console.css", handlers.console_style, "text/css"),
    _file(
        "readConsoleModule",
        "/console/{module}",
        handlers.console_module,
        "text/javascript",
        "no-such-route",
    ),
)
