"""The chat of `examples/chat`, as its README serves it: `python -m tests.sdks.chat` makes the
picture of it in the documents.
"""

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from html import escape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from tests.sdks.packages import built
from tests.support.devtools import Browser
from tests.support.eventually import eventually
from tests.support.jetgate import ROOT, JetgateServer

PICTURE = ROOT / "docs" / "chat.png"
_SIZE = (960, 690)
_STYLE = (
    "<style>body{margin:0;padding:16px;display:flex;gap:16px;background:#c9d3df;height:100vh;"
    "box-sizing:border-box}iframe{flex:1;border:0;border-radius:10px;box-shadow:0 2px 10px #0005}"
    "</style>"
)
_TALK = (
    ("ann", "Did the night's batch get through?"),
    ("bob", "Two of three regions. The third one waits for its disk."),
    ("ann", "Then I restart the server now, if nobody minds."),
    ("bob", "Go ahead. I'll keep typing."),
    None,  # here it is killed and started again
    ("bob", "Are you still there? I did not notice anything."),
    ("ann", "Nor did I. All of it is here, and once."),
)


class Chat:
    """The page, from a server of its own, over a jetgate that may be killed."""

    def __init__(self, place: Path, origin: str, server: JetgateServer) -> None:
        self.server = server
        self._place = place
        self._origin = origin

    def url(self, name: str) -> str:
        """Where somebody chats."""
        where = "http://{}:{}".format(*self.server.http)
        query = urlencode({"name": name, "server": where})
        return f"{self._origin}/examples/chat/?{query}"

    def side_by_side(self, names: list[str]) -> str:
        """Where some of them are seen beside each other."""
        frames = "".join(f"<iframe src='{escape(self.url(name))}'></iframe>" for name in names)
        (self._place / "all.html").write_text(f"<!doctype html>{_STYLE}{frames}")
        return f"{self._origin}/all.html"


@contextmanager
def chat(sdk: Path) -> Iterator[Chat]:
    """Serve the page with the SDK that was built: its directory."""
    with tempfile.TemporaryDirectory() as place:
        shutil.copytree(ROOT / "examples/chat", Path(place) / "examples/chat")
        shutil.copytree(sdk, Path(place) / "sdks/typescript/dist")
        handler = partial(_Quiet, directory=place)
        with ThreadingHTTPServer(("127.0.0.1", 0), handler) as pages:
            origin = f"http://127.0.0.1:{pages.server_port}"
            thread = threading.Thread(target=pages.serve_forever, daemon=True)
            thread.start()
            try:
                with JetgateServer("--http-cors-origin", origin, in_memory=True) as server:
                    yield Chat(Path(place), origin, server)
            finally:
                pages.shutdown()
                thread.join()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


_LINES = """[...document.querySelectorAll("li:not(.sending)")].map((line) =>
  `${line.querySelector("b")?.textContent}: ${line.querySelector("p")?.textContent}`)"""


def connected(talk: Chat, browser: Browser, name: str) -> None:
    """Open the chat, and wait until it can be written to."""
    browser.go(talk.url(name))
    eventually(lambda: browser.run("!!document.querySelector('form')?.onsubmit"))


def spoken_lines(browser: Browser) -> list[str]:
    """What somebody sees, `name: text` each; what is not stored yet is left out."""
    lines = browser.run(_LINES)
    assert isinstance(lines, list)
    return lines


def photograph(sdk: Path, path: Path) -> None:
    """Two who chat, side by side, after a conversation with a restart in it."""
    with chat(sdk) as talk, Browser() as ann, Browser() as bob, Browser() as both:
        both.size(*_SIZE)
        browsers = {"ann": ann, "bob": bob}
        for name, browser in browsers.items():
            connected(talk, browser, name)
        expected: list[str] = []
        for line in _TALK:
            if line is None:
                talk.server.restart()
                continue
            name, text = line
            browsers[name].enter(text)
            expected.append(f"{name}: {text}")
            eventually(lambda: spoken_lines(ann) == spoken_lines(bob) == expected)
        both.go(talk.side_by_side(list(browsers)))
        count = "Array.from(frames, (each) => each.document.querySelectorAll('li').length)"
        eventually(lambda: _numbers(both, count) == [len(expected)] * len(browsers))
        both.picture(path)


def _numbers(browser: Browser, count: str) -> list[int]:
    found = browser.run(count)
    assert isinstance(found, list)
    return found


def main() -> None:
    """Make the picture."""
    with tempfile.TemporaryDirectory() as place:
        photograph(built(Path(place)).parent, PICTURE)
    print(f"wrote {PICTURE.stat().st_size} bytes to {PICTURE}")


if __name__ == "__main__":
    main()
