"""The JavaScript client at servers of its own: with users, and one that is killed under it."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.dropin import NAMES, DropIn
from tests.support.node_packages import node_packages, run_node
from tests.support.ports import held_port
from tests.support.programs import node, node_environment

_SCRIPTS = Path(__file__).parent / "node"
_HASH = "$2a$04$SPE7HLeKCak3LfnTawe7I.T6wTpr/gQjS.5NevzJwsQexVqm9K0WW"  # of "other"
_USERS = """
authorization {
  users: [
    { user: ann, password: secret }
    { user: bob, password: "%s", permissions: {
      publish: { allow: ["open.>", "_INBOX.>", "$SYS.REQ.USER.INFO"] }
      subscribe: { allow: ["open.>", "_INBOX.>", "work own"], deny: "closed.>" }
      allow_responses: { max: 1, expires: "1m" }
    } }
  ]
}
"""


def _configured(where: Path, name: str, text: str, port: int = -1) -> str:
    config = where / f"{name}.conf"
    websocket = "websocket { host: 127.0.0.1, port: -1, no_tls: true }\n"
    config.write_text(f"host: 127.0.0.1\nport: {port}\n{websocket}{text}")
    return str(config)


def _steps(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines()]


@pytest.mark.parametrize("listener", ["nats", "websocket"])
def test_users(listener: str, tmp_path: Path) -> None:
    node_packages()
    found = []
    for name in NAMES:
        with DropIn(name, "-c", _configured(tmp_path, name, _USERS % _HASH)) as server:
            found.append(_steps(run_node(_SCRIPTS / "users.mjs", server.ports()[listener][0])))
    ours, theirs = found
    assert len(theirs) == 15
    assert ours == theirs


def _kill_under_it(name: str, where: Path) -> list[dict[str, Any]]:
    text = f'jetstream {{ store_dir: "{where / name}" }}\n'
    with held_port() as held:
        port: int = held.getsockname()[1]
        return _killed_and_back(name, _configured(where, name, text, port))


def _killed_and_back(name: str, config: str) -> list[dict[str, Any]]:
    with DropIn(name, "-c", config) as server:
        environment = node_environment(str(node_packages() / "node_modules"))
        script = subprocess.Popen(
            [node(), str(_SCRIPTS / "restart.mjs"), server.url],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        with script:
            try:
                assert script.stderr is not None
                assert script.stderr.readline() == "killed?\n"
                server.process.kill()
                server.process.wait()
                with DropIn(name, "-c", config):
                    printed, problems = script.communicate(timeout=90)
            finally:
                script.kill()
    assert script.returncode == 0, problems
    return _steps(printed)


_AFTER = {
    "subscribed still": None,
    "known already": [6, True],
    "after it": {"duplicate": False, "seq": 7, "stream": "JK"},
    "acknowledged once": ["m3", "m4", "m5"],
    "kept": "before",
    "followed": [1, 2, 3, 4, 5, 6, 7],
}


def test_killed(tmp_path: Path) -> None:
    ours, theirs = (
        {step["step"]: step["result"] for step in _kill_under_it(name, tmp_path)} for name in NAMES
    )
    assert ours == _AFTER
    # The reference writes the state of consumers later, and may have forgotten an acknowledgement.
    assert theirs | {"acknowledged once": ours["acknowledged once"]} == _AFTER
