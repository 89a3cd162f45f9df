"""The deletion of the consumer when a subscription ends (ADR-15, "Unsubscribe and Drain")."""

import asyncio

from core.client.jetstream import JetStream
from core.runtime.tasks import outcome, spawn


async def delete_consumer(js: JetStream, stream: str, consumer: str) -> Exception | None:
    """Delete a consumer; return the error, None if it is deleted.

    If the caller is cancelled, the deletion continues.
    """
    deleting = outcome(js.delete_consumer(stream, consumer))
    return await asyncio.shield(spawn(deleting, name="delete consumer"))
