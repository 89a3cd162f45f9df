"""The command of a headless Chromium, and a web server for pages that run jobs of a test."""

import json
import os
import shutil
import subprocess
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import pytest

from tests.support.node_packages import node_packages
from tests.support.programs import node, node_environment

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_PACKAGED = ("@sparticuz/chromium@143.0.4",)
_SECONDS = 90
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--mute-audio",
    "--no-proxy-server",
)
_UNPACK = """
const { createReadStream, createWriteStream, chmodSync } = require("node:fs");
const { pipeline } = require("node:stream/promises");
const { createBrotliDecompress } = require("node:zlib");
const [bin, out] = process.argv.slice(1);
const unpack = (from, to) =>
  pipeline(createReadStream(`${bin}/${from}`), createBrotliDecompress(), createWriteStream(to));
unpack("chromium.br", `${out}/chromium`)
  .then(() => unpack("al2023.tar.br", `${out}/libraries.tar`))
  .then(() => unpack("swiftshader.tar.br", `${out}/swiftshader.tar`))
  .then(() => chmodSync(`${out}/chromium`, 0o755));
"""


def chromium() -> tuple[list[str], dict[str, str]]:
    """Return the command line of Chromium and its environment variables.

    Prefers an installed browser to that of an npm package. Skips the test if neither is available.
    """
    for name in _NAMES:
        if found := shutil.which(name):
            return [found, *_FLAGS], dict(os.environ)
    where = node_packages(_PACKAGED, name="chromium")
    unpacked = where / "unpacked"
    if not unpacked.is_dir():
        _unpack(where / "node_modules/@sparticuz/chromium/bin", unpacked)
    libraries = os.pathsep.join([str(unpacked / "lib"), os.environ.get("LD_LIBRARY_PATH", "")])
    flags = [*_FLAGS, "--single-process", "--no-zygote"]
    return [str(unpacked / "chromium"), *flags], {**os.environ, "LD_LIBRARY_PATH": libraries}


def _unpack(packed: Path, into: Path) -> None:
    fresh = Path(tempfile.mkdtemp(dir=into.parent))
    try:
        command = [node(), "-e", _UNPACK, str(packed), str(fresh)]
        subprocess.run(command, check=True, capture_output=True, timeout=_SECONDS)
        for name in ("libraries.tar", "swiftshader.tar"):
            subprocess.run(["tar", "-xf", str(fresh / name), "-C", str(fresh)], check=True)
            (fresh / name).unlink()
        if not into.is_dir():
            fresh.rename(into)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


class Pages:
    """A web server for one page and the scripts of a directory, on a free port of 127.0.0.1.

    The page fetches `/jobs`, runs them, and posts them with their results. A test sets `jobs`,
    then calls `run`, which opens the page in a browser.

    Attributes:
        jobs: The jobs for the page, as JSON objects.
        cookies: Names and values of the cookies that each response sets.
    """

    def __init__(self, page: Path, scripts: Path) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.cookies: dict[str, str] = {}
        self._done = threading.Event()
        self._handed: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler(page, scripts))
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def run(self) -> list[dict[str, Any]]:
        """Open the page, wait until it posts its jobs, and return the jobs with their results.

        Raises AssertionError if the page posts nothing within 90 seconds or a job has failed.
        """
        command, environment = chromium()
        self._done.clear()
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
            log = Path(profile) / "log"
            with log.open("wb") as out:
                process = subprocess.Popen(
                    [*command, f"--user-data-dir={profile}", f"{self.origin}/"],
                    stdout=out,
                    stderr=out,
                    env=environment | {"HOME": profile},
                )
            try:
                in_time = self._done.wait(_SECONDS)
            finally:
                process.terminate()
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
            assert in_time, log.read_text(errors="replace")[-3000:]
        failed = [job["failed"] for job in self._handed if "failed" in job]
        assert not failed, failed
        return self._handed

    def _handler(self, page: Path, scripts: Path) -> type[BaseHTTPRequestHandler]:
        pages = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path == "/":
                    self._answer("text/html", page.read_bytes())
                elif path == "/jobs":
                    self._answer("application/json", json.dumps(pages.jobs).encode())
                elif (script := scripts / path.strip("/")).is_file():
                    self._answer("text/javascript", script.read_bytes())
                else:
                    self.send_error(404)

            def do_POST(self) -> None:
                pages._handed = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer("text/plain", b"")
                pages._done.set()

            def _answer(self, kind: str, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                for name, value in pages.cookies.items():
                    self.send_header("Set-Cookie", f"{name}={value}; Path=/")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing: the posted results contain all that matters."""

        return Handler


def bundled(bundler: Path, scripts: list[Path], into: Path) -> None:
    """Bundle scripts and the npm packages that they import into a directory, for use in a page.

    `bundler` is the Node.js script that calls esbuild. Fails the test if it exits with an error.
    """
    packages = node_packages() / "node_modules"
    tools = node_packages(("esbuild@0.28.2",), name="esbuild") / "node_modules"
    done = subprocess.run(
        [node(), str(bundler), str(into), *map(str, scripts)],
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        env=node_environment(f"{tools}{os.pathsep}{packages}"),
        check=False,
    )
    if done.returncode:
        pytest.fail(done.stderr)
