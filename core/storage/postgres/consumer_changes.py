"""SQL statements that create, change and delete consumers, each under the epoch of the stream.

The lock on the stream's head row (`for key share`) makes a new leader wait, since it locks the row
`for update`. Commits of messages change no key of the row, so they do not wait. Each stream counts
the changes of its consumers. A leader compares the count with its own to detect that the database
has lost some. The states of consumers are written by `core.storage.postgres.consumer_states`.
"""

from typing import Any

from core.errors import Fenced
from core.storage.interface import ConsumerRow
from core.units import Epoch

_LED = """
    led as (select stream, epoch from jetgate_store.head
             where stream = $1 and epoch = $2 for key share)
"""
# A row left by an earlier attempt with the id of this request is the wanted result.
_ADD = f"""
    with {_LED}, counted as (
      update jetgate_store.stream s
         set next_consumer = next_consumer + 1, consumer_changes = consumer_changes + 1
        from led where s.stream = led.stream
   returning next_consumer - 1 as number, consumer_changes, led.epoch),
    added as (
      insert into jetgate_store.consumer
             (stream, consumer, name, created, creation, epoch, config, state)
      select $1, number, $3, $4, $5, epoch, $6, $7 from counted
          on conflict (stream, name) do nothing returning consumer)
    select (select consumer_changes from counted), (select consumer from added)
"""
_CREATED = "select consumer from jetgate_store.consumer where stream = $1 and creation = $2"
_LEFT = "delete from jetgate_store.consumer where stream = $1 and name = $2"
_COUNTED = f"""
    with {_LED}, counted as (
      update jetgate_store.stream s set consumer_changes = consumer_changes + 1
        from led where s.stream = led.stream
   returning s.stream, consumer_changes),
"""
_SET = f"""{_COUNTED} changed as (
      update jetgate_store.consumer c set config = $4 from counted
       where c.stream = counted.stream and c.consumer = $3)
    select consumer_changes from counted
"""
_DROP = f"""{_COUNTED} dropped as (
      delete from jetgate_store.consumer c using counted
       where c.stream = counted.stream and c.consumer = $3)
    select consumer_changes from counted
"""


async def add(session: Any, row: ConsumerRow, epoch: Epoch) -> tuple[int, int]:
    """Create a consumer; return (its number, the number of changes of the stream's consumers).

    An existing row with the same name and another request id is left over from an attempt that was
    given up: the stream's leader has no such consumer. The row is replaced. Raises Fenced if the
    stream has another epoch than `epoch`.
    """
    made = (row.name, row.created, row.creation, row.config, row.state)
    changes, number = await session.fetchrow(_ADD, row.stream, epoch, *made)
    if changes is None:
        raise _fenced(row.stream, epoch)
    if number is None:
        number = await session.fetchval(_CREATED, row.stream, row.creation)
    if number is None:
        await session.execute(_LEFT, row.stream, row.name)
        changes, number = await session.fetchrow(_ADD, row.stream, epoch, *made)
    return number, changes


async def change(session: Any, stream: int, consumer: int, config: str, epoch: Epoch) -> int:
    """Change a consumer's configuration; return the number of changes of the stream's consumers.

    Raises Fenced if the stream has another epoch than `epoch`.
    """
    return _changes(await session.fetchval(_SET, stream, epoch, consumer, config), stream, epoch)


async def drop(session: Any, stream: int, consumer: int, epoch: Epoch) -> int:
    """Delete a consumer; return the number of changes of the stream's consumers.

    Raises Fenced if the stream has another epoch than `epoch`.
    """
    return _changes(await session.fetchval(_DROP, stream, epoch, consumer), stream, epoch)


def _changes(found: int | None, stream: int, epoch: Epoch) -> int:
    if found is None:
        raise _fenced(stream, epoch)
    return found


def _fenced(stream: int, epoch: Epoch) -> Fenced:
    return Fenced(f"epoch {epoch} of stream {stream} is over")
