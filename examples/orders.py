"""Publish orders of a shop into the stream ORDERS, one message per order.

    python examples/orders.py [--server nats://127.0.0.1:4222] [--count N]

An order goes to orders.<region>.<status> as JSON. The message id is that of the order, so a second
run within the deduplication window stores nothing twice. Every run publishes the same orders.
"""

import argparse
import asyncio
import json
import random
import sys
from collections.abc import Iterator

import nats
import nats.errors
from nats.js.api import StreamConfig
from nats.js.errors import NotFoundError

REGIONS = ("eu", "us", "asia")
STATUSES = ("new", "paid", "shipped")


def orders(count: int) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield subject and fields of each order."""
    chosen = random.Random(7)
    for number in range(1, count + 1):
        subject = f"orders.{chosen.choice(REGIONS)}.{chosen.choice(STATUSES)}"
        items = chosen.randint(1, 5)
        yield subject, {"id": number, "items": items, "total": items * chosen.randint(5, 90)}


async def ignored(_: Exception) -> None:
    """Leave the error to the caller of `nats.connect`."""


async def main() -> None:
    """Publish every order; print how many were stored."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--server", default="nats://127.0.0.1:4222", help="address of jetgate (%(default)s)"
    )
    parser.add_argument("--count", type=int, default=1000, help="number of orders (%(default)s)")
    options = parser.parse_args()
    try:
        connection = await nats.connect(
            options.server, allow_reconnect=False, max_reconnect_attempts=1, error_cb=ignored
        )
    except nats.errors.NoServersError:
        raise OSError(
            f"no server answers at {options.server}; --server names another address"
        ) from None
    js = connection.jetstream(timeout=30, publish_async_max_pending=options.count)
    try:
        await js.stream_info("ORDERS")
    except NotFoundError:
        await js.add_stream(StreamConfig(name="ORDERS", subjects=["orders.>"], allow_direct=True))
    pending = [
        await js.publish_async(
            subject,
            json.dumps(order).encode(),
            headers={"Nats-Msg-Id": f"order-{order['id']}", "Content-Type": "application/json"},
        )
        for subject, order in orders(options.count)
    ]
    acks = await asyncio.gather(*pending)
    known = sum(bool(ack.duplicate) for ack in acks)
    print(f"{len(acks) - known} orders stored, {known} known already")
    await connection.close()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except (OSError, ValueError, nats.errors.Error) as error:
        sys.exit(f"orders: {error} (see --help)")
