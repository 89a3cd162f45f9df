"""The streams of a database and their subjects, for nodes that lead none of them."""

import asyncio
from contextlib import suppress

import msgspec

from core.errors import Unavailable
from core.storage.interface import StreamSubjects
from core.storage.postgres.connect import DATABASE_ERRORS, Connector, Purpose, trouble

_PATIENCE_S = 2.0
_STREAMS = "select account, name, config from jetgate_store.stream where not dropped"


class _Config(msgspec.Struct):
    """What matters of the configuration of a stream."""

    subjects: list[str] | None = None
    no_ack: bool | None = None


async def stream_subjects(connector: Connector) -> list[StreamSubjects]:
    """Return which streams there are. Raises Unavailable."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            connection = await connector.open(Purpose.READ)
            try:
                rows = await connection.fetch(_STREAMS)
                with suppress(*DATABASE_ERRORS):  # what it was opened for is there
                    await connection.close()
            finally:
                connection.terminate()
    except DATABASE_ERRORS as error:
        raise Unavailable(trouble(error)) from error
    found = []
    for row in rows:
        config = msgspec.json.decode(row["config"], type=_Config)
        subjects = tuple(config.subjects or ())
        found.append(StreamSubjects(row["account"], row["name"], subjects, bool(config.no_ack)))
    return found
