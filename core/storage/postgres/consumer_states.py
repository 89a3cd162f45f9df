"""The SQL statement that stores the states of consumers: their deliveries and acknowledgements.

`core.storage.postgres.consumer_changes` creates and deletes the rows.
"""

from collections.abc import Sequence
from typing import Any

from core.storage.interface import StateWrite

WRITE = """
    update jetgate_store.consumer c
    set state = x.state, delivered_stream_seq = x.delivered, ack_floor_stream_seq = x.ack_floor,
        ack_pending = x.pending, redelivered = x.redelivered
    from unnest($1::int[], $2::int[], $3::bigint[], $4::bytea[], $5::bigint[], $6::bigint[],
                $7::bigint[], $8::bigint[])
         as x(stream, consumer, epoch, state, delivered, ack_floor, pending, redelivered)
    where c.stream = x.stream and c.consumer = x.consumer and c.epoch = x.epoch
    returning c.stream, c.consumer
"""


def columns(states: Sequence[StateWrite]) -> tuple[list[Any], ...]:
    """Return the parameters of the statement `WRITE` for some states: one list per column."""
    return (
        [s.stream for s in states],
        [s.consumer for s in states],
        [s.epoch for s in states],
        [s.state for s in states],
        [s.delivered_stream_seq for s in states],
        [s.ack_floor_stream_seq for s in states],
        [s.ack_pending for s in states],
        [s.redelivered for s in states],
    )
