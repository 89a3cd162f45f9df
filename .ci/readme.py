"""Run the commands of the README literally, and check that they work.

    python .ci/readme.py ENVIRONMENT LOG

The commands are those of the README's text. A fresh virtual environment is made in ENVIRONMENT.
`jetgate dev` runs in an empty directory, and LOG gets what it prints; a message goes
in by the official client and comes out over HTTP, also after Ctrl-C and another start. Then the
command of the tests collects all of them and runs, of each folder, tests until one passes.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_BLOCK = re.compile(r"(?:^ {4}\S.*\n)+", re.MULTILINE)
_FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_URL = re.compile(r"open (http://\S+/)")
_SECONDS = 60.0
_PUBLISH = """
import asyncio, nats

async def main():
    connected = await nats.connect("nats://127.0.0.1:4222")
    stream = connected.jetstream()
    await stream.add_stream(name="README", subjects=["readme.>"])
    print((await stream.publish("readme.first", b"as it says")).seq)
    await connected.close()

asyncio.run(main())
"""
_STORED = "v1/streams/README/messages?last_by=readme.first"


def commands(text: str) -> tuple[str, str, str]:
    """The commands that install, serve and test: the two blocks of the README without a fence."""
    blocks = [
        [line.partition("  #")[0].strip() for line in block.splitlines()]
        for block in _BLOCK.findall(_FENCED.sub("", text))
    ]
    (install, serve), (test,) = blocks
    return install, serve, test


def shell(command: str, where: Path, environment: dict[str, str]) -> None:
    """Run a line of the README; end with its exit code when it fails."""
    print(f"-- {where.name}$ {command}", flush=True)
    done = subprocess.run(["bash", "-c", command], cwd=where, env=environment, check=False)
    if done.returncode:
        sys.exit(f"README: `{command}` ended with {done.returncode}")


def read(url: str) -> bytes:
    """The body of a page."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return bytes(answer.read())


class Served:
    """`jetgate dev`, or the command of the README, in a directory; Ctrl-C at the end.

    Args:
        command: The command of the README.
        where: The directory.
        url: The page that answers once it serves.
        log: Gets what the command prints.
        environment: Of the command.
    """

    def __init__(
        self, command: str, where: Path, url: str, log: Path, environment: dict[str, str]
    ) -> None:
        self._url, self._command = url, command
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=where,
                stdout=output,
                stderr=output,
                env=environment,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )

    def __enter__(self) -> None:
        ends = time.monotonic() + _SECONDS
        while self._process.poll() is None and time.monotonic() < ends:
            try:
                read(self._url)
            except OSError:
                time.sleep(0.05)
            else:
                return
        self._process.kill()
        sys.exit(f"README: `{self._command}` does not serve {self._url}")

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGINT)
        code = self._process.wait(30)
        if code:
            sys.exit(f"README: `{self._command}` ended with {code} on Ctrl-C")


def main() -> None:
    """Install, serve, test."""
    place, log = Path(sys.argv[1]), Path(sys.argv[2])
    text = (ROOT / "README.md").read_text()
    install, serve, test = commands(text)
    found = _URL.search(text)
    if found is None:
        sys.exit("README: names no page to open")
    url = found[1]
    venv.create(place, with_pip=True)
    path = os.pathsep.join([str(place / "bin"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "VIRTUAL_ENV": str(place)}
    shell(install, ROOT, environment)
    with tempfile.TemporaryDirectory() as empty:
        where = Path(empty)
        print(f"-- {where.name}$ {serve}", flush=True)
        with Served(serve, where, url, log, environment):
            publish = [str(place / "bin" / "python"), "-c", _PUBLISH]
            subprocess.run(publish, env=environment, check=True)
        if not (where / ".jetgate").is_dir():
            sys.exit("README: data is not in ./.jetgate")
        with Served(serve, where, url, log, environment):
            if read(url + _STORED) != b"as it says":
                sys.exit("README: the message did not come back")
    shell(f"{test} --smoke", ROOT, environment)


if __name__ == "__main__":
    main()
