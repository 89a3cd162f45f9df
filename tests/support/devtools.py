"""A headless Chromium that is driven over its DevTools protocol: typed into, read, photographed."""

import json
import subprocess
import tempfile
from base64 import b64decode
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self
from urllib.request import urlopen

from websockets.sync.client import ClientConnection, connect

from tests.support.chromium import chromium
from tests.support.eventually import eventually

_SECONDS = 60


class Browser:
    """One page in a browser of its own, of `size` pixels."""

    def __init__(self, size: tuple[int, int] = (480, 560)) -> None:
        self._size = size
        self._ids = 0
        self._open = ExitStack()
        self._ws: ClientConnection

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            keep = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
            profile = Path(opening.enter_context(keep))
            self._start(profile, opening)
            ports = profile / "DevToolsActivePort"
            port = int(eventually(lambda: _first_line(ports), within=_SECONDS))
            page = eventually(lambda: _page(port), within=_SECONDS)
            connecting = connect(page, max_size=None, compression=None, proxy=None)
            self._ws = opening.enter_context(connecting)
            self._open = opening.pop_all()
        width, height = self._size
        sizes = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **sizes)
        return self

    def _start(self, profile: Path, opening: ExitStack) -> None:
        command, environment = chromium()
        flags = [
            "--remote-debugging-port=0",
            "--remote-allow-origins=*",
            f"--user-data-dir={profile}",
        ]
        process = subprocess.Popen(
            [*command, *flags, "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment | {"HOME": str(profile)},
        )
        opening.callback(_end, process)

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol. Raises AssertionError when it fails."""
        self._ids += 1
        self._ws.send(json.dumps({"id": self._ids, "method": method, "params": params}))
        while True:
            answer = json.loads(self._ws.recv(timeout=_SECONDS))
            if answer.get("id") == self._ids:
                assert "error" not in answer, answer
                found: dict[str, Any] = answer["result"]
                return found

    def open(self, url: str) -> None:
        """Go to a page."""
        assert "errorText" not in self.call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """The value of an expression of JavaScript in the page."""
        said = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in said, said["exceptionDetails"]
        return said["result"].get("value")

    def enter(self, text: str) -> None:
        """Type into what has the focus, and press Enter."""
        self.call("Input.insertText", text=text)
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
        self.call("Input.dispatchKeyEvent", type="keyDown", text="\r", **key)
        self.call("Input.dispatchKeyEvent", type="keyUp", **key)

    def screenshot(self) -> bytes:
        """What is seen, as PNG."""
        return b64decode(self.call("Page.captureScreenshot", format="png")["data"])


def _first_line(path: Path) -> str:
    return path.read_text().partition("\n")[0] if path.exists() else ""


def _page(port: int) -> str:
    """The address of the only page."""
    with urlopen(f"http://127.0.0.1:{port}/json/list", timeout=_SECONDS) as answer:
        found = [each for each in json.load(answer) if each["type"] == "page"]
    return str(found[0]["webSocketDebuggerUrl"]) if found else ""


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
