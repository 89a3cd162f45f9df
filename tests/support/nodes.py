"""Several nodes of `jetgate serve` over one database, as processes."""

import json
import signal
from typing import Self
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer


class Nodes:
    """Processes that end with the block, whatever became of them; `flags` are given to each."""

    def __init__(self, dsn: str, count: int, *flags: str) -> None:
        self.all = [JetgateServer(*flags, dsn=dsn) for _ in range(count)]

    def __enter__(self) -> Self:
        try:
            for node in self.all:
                node.start()
            self.settled()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.all:
            if node.process is not None:
                node.process.send_signal(signal.SIGCONT)
            node.stop()

    def settled(self) -> None:
        """Wait until one leads and all are linked with all."""

        def look() -> bool:
            found = [numbers(node) for node in self.all]
            leaders = sum(each["jetgate_leader"] for each in found)
            others = len(self.all) - 1
            return leaders == 1 and all(
                each["jetgate_has_leader"] and each["jetgate_links"] == others for each in found
            )

        eventually(look, within=120)

    @property
    def leader(self) -> JetgateServer:
        """The one that leads, once all are settled."""
        self.settled()
        return next(node for node in self.all if numbers(node)["jetgate_leader"])

    @property
    def followers(self) -> list[JetgateServer]:
        """The others."""
        leader = self.leader
        return [node for node in self.all if node is not leader]


def numbers(node: JetgateServer) -> dict[str, float]:
    """What /metrics says without labels; nothing leads where nobody answers."""
    try:
        with urlopen("http://{}:{}/metrics".format(*node.http), timeout=30) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return dict.fromkeys(("jetgate_leader", "jetgate_has_leader", "jetgate_links"), 0.0)
    pairs = (line.split() for line in lines if line.startswith("jetgate_") and "{" not in line)
    return {name: float(value) for name, value in pairs}


def readiness(node: JetgateServer) -> tuple[int, str]:
    """The status of /readyz, and why it is not 200."""
    try:
        with urlopen("http://{}:{}/readyz".format(*node.http), timeout=30) as answer:
            return answer.status, ""
    except HTTPError as error:
        with error:
            return error.code, str(json.loads(error.read())["detail"])
