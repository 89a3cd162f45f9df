"""A headless Chromium that a test controls over the DevTools protocol.

Methods find elements by ARIA role and accessible name, as a screen reader does, and use them with
real mouse and key events. `Browser.complaints` records exceptions, dialogs and violations of the
content security policy.
"""

import base64
import json
import shutil
import subprocess
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Self

from websockets.sync.client import ClientConnection, connect

from tests.support.chromium import chromium
from tests.support.eventually import eventually

_START_S = 90.0
_ANSWER_S = 60.0
_LOOK_S = 0.04
_KEYS = {"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "Tab": 9}
Node = dict[str, Any]


class NotFound(AssertionError):
    """The page shows no element with this role and name, or no such text, within 30 seconds."""


class Navigated(RuntimeError):
    """The page navigated to another address during a DevTools request."""


class Browser:
    """A headless browser with one page; a context manager that starts and ends the process.

    Attributes:
        complaints: Exceptions, dialogs and policy violations of the page since `fresh`.
    """

    def __init__(self) -> None:
        self._profile = Path(mkdtemp(prefix="chromium-"))
        self._ids = count(1)
        self._session = ""
        self._context = ""
        self._open = ExitStack()
        self._socket: ClientConnection | None = None
        self.complaints: list[str] = []

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            opening.callback(shutil.rmtree, self._profile, ignore_errors=True)
            opening.callback(_end, self._started())
            port, path = eventually(self._told, within=_START_S)
            url = f"ws://127.0.0.1:{port}{path}"
            joined = connect(url, max_size=None, compression=None, proxy=None)
            self._socket = opening.enter_context(joined)
            self.fresh()
            self._open = opening.pop_all()
        return self

    def _started(self) -> subprocess.Popen[bytes]:
        command, environment = chromium()
        flags = ["--remote-debugging-port=0", f"--user-data-dir={self._profile}", "about:blank"]
        with (self._profile / "log").open("wb") as log:
            return subprocess.Popen(
                [*command, *flags],
                stdout=log,
                stderr=log,
                env=environment | {"HOME": str(self._profile)},
            )

    def _told(self) -> list[str]:
        """Return port and path of the DevTools endpoint; empty until the browser writes them."""
        at = self._profile / "DevToolsActivePort"
        lines = at.read_text().split() if at.exists() else []
        return lines if len(lines) == 2 else []

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def fresh(self) -> None:
        """Open a new page without the cookies of the previous one."""
        self._session = ""
        if self._context:
            self.call("Target.disposeBrowserContext", browserContextId=self._context)
        self._context = self.call("Target.createBrowserContext")["browserContextId"]
        made = self.call("Target.createTarget", url="about:blank", browserContextId=self._context)
        attached = self.call("Target.attachToTarget", targetId=made["targetId"], flatten=True)
        self._session = attached["sessionId"]
        self.complaints = []
        for domain in ("Page", "Runtime", "Log", "DOM"):
            self.call(f"{domain}.enable")
        # Without this command only the foremost page of the browser gets keys and focus.
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        self.size(1280, 800)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a DevTools command to the browser and return its result.

        Raises Navigated if the page has navigated to another address meanwhile, RuntimeError for
        other errors.
        """
        assert self._socket is not None
        asked = next(self._ids)
        message = {"id": asked, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._socket.send(json.dumps(message))
        while True:
            answer = json.loads(self._socket.recv(_ANSWER_S))
            if answer.get("id") == asked:
                break
            self._check_event(answer)
        if "error" in answer:
            error = f"{method}: {answer['error']}"
            raise Navigated(error) if "navigated" in error else RuntimeError(error)
        result: dict[str, Any] = answer["result"]
        return result

    def _check_event(self, event: dict[str, Any]) -> None:
        """Append an exception, a dialog or a policy violation of the page to `complaints`."""
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.complaints.append(str(details.get("exception", details).get("description")))
            case "Page.javascriptDialogOpening":
                self.complaints.append(f"dialog: {params['message']}")
            case "Log.entryAdded" if params["entry"]["source"] == "security":
                self.complaints.append(params["entry"]["text"])

    # -- looking ---------------------------------------------------------------------------------

    def run(self, script: str) -> Any:
        """Evaluate a JavaScript expression in the page, await its promise, and return its value.

        Raises AssertionError if the expression throws.
        """
        answer = self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def text(self, selector: str = "body") -> str:
        """Return the visible text of the first element that matches a CSS selector.

        Empty if there is none, or while the page navigates.
        """
        try:
            found = self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")
        except Navigated:
            return ""
        return str(found)

    def see(self, text: str, selector: str = "body") -> str:
        """Wait until an element shows `text`; return its whole text. Raises NotFound after 30 s."""

        def shown() -> str:
            found = self.text(selector)
            return found if text in found else ""

        try:
            return eventually(shown, within=30, every=_LOOK_S)
        except AssertionError as error:
            raise NotFound(f"{text!r} in: {self.text()[:3000]}") from error

    def find(self, role: str, name: str) -> Node:
        """Wait for an element whose accessible name equals, or else begins with, `name`.

        Raises AssertionError after 30 seconds.
        """
        nodes = eventually(lambda: self._named(role, name), within=30, every=_LOOK_S)
        return nodes[0]

    def shows(self, role: str, name: str) -> bool:
        """Return True if the page now shows an element with this role and name."""
        return bool(self._named(role, name))

    def unnamed(self) -> list[str]:
        """Return the roles of controls that have no accessible name."""
        tree = self.call("Accessibility.getFullAXTree")["nodes"]
        controls = (
            "button",
            "link",
            "textbox",
            "searchbox",
            "combobox",
            "checkbox",
            "radio",
            "table",
        )
        return [
            each["role"]["value"]
            for each in tree
            if not each["ignored"] and each["role"]["value"] in controls and not _name(each)
        ]

    def _named(self, role: str, name: str) -> list[Node]:
        try:
            if self.run("document.readyState") != "complete":
                return []
            found = self.call("Runtime.evaluate", expression="document")["result"]["objectId"]
            tree = self.call("Accessibility.queryAXTree", objectId=found, role=role)["nodes"]
        except RuntimeError:  # the page has changed meanwhile
            return []
        shown = [each for each in tree if not each["ignored"] and "backendDOMNodeId" in each]
        exact = [each for each in shown if _name(each) == name]
        return exact or [each for each in shown if _name(each).startswith(name)]

    # -- doing -----------------------------------------------------------------------------------

    def go(self, url: str) -> None:
        """Start the navigation to an address. Raises AssertionError if the browser refuses it."""
        answer = self.call("Page.navigate", url=url)
        assert "errorText" not in answer, answer

    def click(self, role: str, name: str) -> None:
        """Wait for an element with this role and name, and click it. Raises NotFound after 30 s."""

        def clicked() -> bool:
            nodes = self._named(role, name)
            return bool(nodes) and self._click(nodes[0])

        try:
            eventually(clicked, within=30, every=_LOOK_S)
        except AssertionError as error:
            raise NotFound(f"{role} {name!r} in: {self.text()[:3000]}") from error

    def _click(self, node: Node) -> bool:
        at = {"backendNodeId": node["backendDOMNodeId"]}
        try:
            self.call("DOM.scrollIntoViewIfNeeded", **at)
            quad = self.call("DOM.getContentQuads", **at)["quads"][0]
        except (RuntimeError, IndexError):  # the element has just disappeared, or it moves
            return False
        x, y = (quad[0] + quad[4]) / 2, (quad[1] + quad[5]) / 2
        mouse = {"x": x, "y": y, "button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mousePressed", **mouse)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **mouse)
        return True

    def write(self, name: str, text: str, role: str = "textbox") -> None:
        """Replace the text of the input field with this accessible name."""
        node = self.find(role, name)
        self.call("DOM.focus", backendNodeId=node["backendDOMNodeId"])
        self.run("document.activeElement.select()")
        if text:
            self.call("Input.insertText", text=text)
        else:
            self.key("Backspace", 8)

    def choose(self, name: str, value: str) -> None:
        """Choose the option with this value in the select element with this accessible name."""
        node = self.find("combobox", name)
        found = self.call("DOM.resolveNode", backendNodeId=node["backendDOMNodeId"])["object"]
        self.call(
            "Runtime.callFunctionOn",
            objectId=found["objectId"],
            functionDeclaration="function (value) { this.value = value;"
            " this.dispatchEvent(new Event('input', {bubbles: true}));"
            " this.dispatchEvent(new Event('change', {bubbles: true})); }",
            arguments=[{"value": value}],
        )

    def key(self, key: str, code: int = 0, text: str = "") -> None:
        """Press and release a key, such as `Enter` or `a`.

        Args:
            key: The `key` of the DOM event.
            code: Its Windows virtual key code; 0 takes it from `_KEYS`, if known.
            text: The text that the key inserts, if it differs from a one-letter `key`.
        """
        number = code or _KEYS.get(key, 0)
        said = {"key": key, "windowsVirtualKeyCode": number, "code": key}
        if text or len(key) == 1 or key == "Enter":
            said["text"] = text or ("\r" if key == "Enter" else key)
        self.call("Input.dispatchKeyEvent", type="keyDown", **said)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=number)

    def enter(self, text: str) -> None:
        """Type into the focused element and press Enter."""
        self.call("Input.insertText", text=text)
        self.key("Enter")

    # -- how it looks ----------------------------------------------------------------------------

    def size(self, width: int, height: int) -> None:
        """Set the size of the window, in pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def scheme(self, scheme: str) -> None:
        """Set the preferred colour scheme, `light` or `dark`, and ask for reduced motion."""
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        features = [{"name": "prefers-color-scheme", "value": scheme}, still]
        self.call("Emulation.setEmulatedMedia", features=features)

    def picture(self, path: Path) -> None:
        """Write a screenshot of the window as PNG."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _name(node: Node) -> str:
    return str(node.get("name", {}).get("value", ""))
