"""`python -m tests.console.picture` makes docs/console.png: a stream, and a message of it."""

import json
import random
from pathlib import Path

from tests.gateway.web import Web
from tests.support.devtools import Browser
from tests.support.jetgate import ROOT, JetgateServer

_WHERE = ROOT / "docs" / "console.png"
_KINDS = ("new", "paid", "shipped.eu", "shipped.us", "returned")
_WHO = ("Ada", "Grace", "Edsger", "Barbara", "Donald")
_SIZE = (1180, 640)


def _orders(count: int) -> str:
    chance = random.Random(7)
    lines = []
    for number in range(1, count + 1):
        order = {
            "order": 4000 + number // 3,
            "total": round(chance.random() * 300, 2),
            "customer": {"name": chance.choice(_WHO), "since": 2019 + number % 6},
            "items": [{"sku": f"A-{chance.randrange(900)}", "count": 1 + number % 4}],
        }
        subject = f"orders.{chance.choice(_KINDS)}"
        headers = {"Trace-Id": f"{chance.getrandbits(64):016x}"}
        lines.append(json.dumps({"subject": subject, "data": order, "headers": headers}))
    return "\n".join(lines)


def picture(where: Path = _WHERE) -> None:
    """Start a server, store orders, and write what the console shows of them."""
    with JetgateServer(in_memory=True) as server, Browser() as page:
        web = Web(server.http)
        config = {"subjects": ["orders.>"], "allow_direct": True}
        web.json("PUT", "/v1/streams/ORDERS", config)
        web.json("PUT", "/v1/streams/ORDERS/consumers/billing", {"ack_policy": "explicit"})
        web.lines(_orders(2400).encode())
        page.size(*_SIZE)
        page.scheme("light")
        page.go("http://{}:{}/#/streams/ORDERS/messages?seq=2392".format(*server.http))
        page.see('"customer"', "dialog pre")
        page.picture(where)
    print(f"{where}: {where.stat().st_size} bytes")


if __name__ == "__main__":
    picture()
