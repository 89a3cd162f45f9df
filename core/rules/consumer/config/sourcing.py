"""The configuration of the consumers that mirrors and sources request (ADR-59, ADR-60).

A mirror or source requests a consumer that is `direct` and `sourcing`. A stream with limits
retention creates exactly that: not listed, without acknowledgements, with a new name for every
request. A stream with interest or work-queue retention creates a durable consumer instead. It keeps
its position while the requesting stream is unreachable, and is acknowledged by answers to
flow-control requests.
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
    """Return the configuration of the consumer to create for a request of a mirror or source.

    The configuration of any other request is returned unchanged.

    Args:
        requested: The requested configuration.
        retention: The retention of the stream.
        consumers: The consumers of the stream, by name.
        suffix: Makes the name of a consumer of a stream with limits retention unique.
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
    # The consumer continues at its position, regardless of the start in the request.
    return replace(
        config,
        deliver_policy=existing.deliver_policy,
        opt_start_seq=existing.opt_start_seq,
        opt_start_time=existing.opt_start_time,
    )
