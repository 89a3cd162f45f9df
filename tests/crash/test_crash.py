"""kill -9, twenty times, under load: each acknowledged message exists once, at its sequence.

The last test proves that the checker works: it must find acknowledgements sent before COMMIT.
"""

# Subject: crashes

import random
from collections.abc import Callable

from tests.crash.clients import (
    Consumer,
    Publisher,
    create,
    read_all,
    wait_until_consumed,
)
from tests.crash.ledger import Ledger, check
from tests.support.eventually import eventually
from tests.support.jetgate import JetgateServer

WITH_ID = {b"ids0", b"ids1"}
SEED = 20251208


def crash_run(server: JetgateServer, cycles: int) -> list[str]:
    """Run publishers and a consumer through `cycles` crashes; return the checker's findings."""
    ledger = Ledger()
    create(server.address)
    publishers = [
        Publisher(name, lambda: server.address, ledger, ids=name.encode() in WITH_ID)
        for name in ("plain0", "plain1", "ids0", "ids1")
    ]
    consumer = Consumer("consumer", lambda: server.address, ledger)
    for client in (*publishers, consumer):
        client.start()
    choose = random.Random(SEED)
    for cycle in range(cycles):
        enough = len(ledger.acked) + choose.randrange(20, 600)
        eventually(_grown(ledger, enough), within=120)
        if cycle % 2:
            server.kill_postgres()
        server.restart()
    eventually(_grown(ledger, len(ledger.acked) + 100), within=120)
    for publisher in publishers:
        publisher.stop()
    wait_until_consumed(server.address, ledger)
    consumer.stop()
    return check(ledger, read_all(server.address), with_id=WITH_ID)


def _grown(ledger: Ledger, enough: int) -> Callable[[], bool]:
    return lambda: len(ledger.acked) >= enough


def test_nothing_acknowledged_is_lost_in_twenty_crashes() -> None:
    with JetgateServer() as server:
        wrong = crash_run(server, 20)

    assert wrong == []


def test_the_checker_sees_acknowledgements_sent_before_commit() -> None:
    env = {"JETGATE_TEST_ACK_BEFORE_COMMIT": "1"}
    with JetgateServer(module="tests.support.faulty_node", env=env) as server:
        wrong = crash_run(server, 5)

    assert any(text.startswith("lost") for text in wrong)
