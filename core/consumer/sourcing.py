"""The consumers of mirrors and sources: the configuration made of their request (ADR-59, ADR-60).

A mirror or source asks for a consumer that is `direct` and `sourcing`. From a stream with limits
retention it gets just that: hidden, without acknowledgements, with a new name for every request.
From a stream with interest or work-queue retention it gets a durable consumer, which keeps its
position while the copying side is away and is acknowledged by answers to flow-control requests.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from core.model.consumer import AckPolicy, ConsumerConfig
from core.model.stream import Retention


def sourcing_form(
    requested: ConsumerConfig,
    retention: Retention,
    consumers: Mapping[str, ConsumerConfig],
    suffix: str,
) -> ConsumerConfig:
    """Return the configuration to create for a request; others than those above are unchanged.

    Args:
        requested: the configuration asked for.
        retention: that of the stream.
        consumers: those of the stream, by name.
        suffix: makes the name of a hidden consumer unique.
    """
    if not (requested.direct and requested.sourcing and requested.name):
        return requested
    if retention is Retention.LIMITS:
        return replace(requested, name=f"{requested.name}-{suffix}")
    config = replace(
        requested,
        durable_name=requested.name,
        direct=False,
        ack_policy=AckPolicy.FLOW_CONTROL,
        ack_wait=0,
        max_deliver=-1,
        inactive_threshold=0,
    )
    existing = consumers.get(requested.name)
    if existing is None:
        return config
    # It continues at its position, whatever start the request names.
    return replace(
        config,
        deliver_policy=existing.deliver_policy,
        opt_start_seq=existing.opt_start_seq,
        opt_start_time=existing.opt_start_time,
    )
