"""Advisories and metrics: the events that the server publishes on `$JS.EVENT.>`.

An event is built only if its subject has a subscriber (a client, or a stream that captures it).
This costs one lookup of the subject's receivers per event. Code that could emit one event per
message calls `has_interest` once per batch, and emits no events if it returns False.

An event that reports a change is emitted after the COMMIT of the change. Events have no reply
subject and no headers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from core.goinput import text_of
from core.model import codec
from core.model.advisory import (
    AckMetric,
    ApiAudit,
    ApiLimitReached,
    BatchAbandoned,
    ClientInfo,
    ConsumerAction,
    ConsumerLeaderElected,
    ConsumerPause,
    DomainLeaderElected,
    Event,
    GroupPinned,
    GroupUnpinned,
    MaxDeliver,
    Nak,
    StreamAction,
    StreamLeaderElected,
    Terminated,
)
from core.model.cluster import PeerInfo
from core.runtime.nuid import nuid
from core.units import ConsumerSeq

if TYPE_CHECKING:
    from core.pubsub.account import Account
    from core.runtime.clock import Clock

Replicas = Callable[[], tuple[PeerInfo, ...]]
PREFIX = "$JS.EVENT."
API = b"$JS.EVENT.ADVISORY.API"


class Advisories:
    """Publishes the JetStream advisories and metrics of one account.

    Args:
        account: The account in which events are published.
        clock: The clock for timestamps of events.
        server: The server's name, for events that contain it.
        domain: The JetStream domain (empty: none).
    """

    def __init__(self, account: Account, clock: Clock, server: str = "", domain: str = "") -> None:
        self._account = account
        self._clock = clock
        self._server = server
        self._domain = domain

    def has_interest(self, kind: str, *names: str) -> bool:
        """Return whether the subject of an event, `$JS.EVENT.<kind>.<names>`, has a subscriber.

        Example: `has_interest("ADVISORY.STREAM.CREATED", stream)`.
        """
        return self._account.has_interest(".".join((PREFIX + kind, *names)).encode())

    def emit(self, where: str, event: type[Event], /, **fields: object) -> None:
        """Publish an event on `$JS.EVENT.<where>` if the subject has a subscriber.

        `event` is the type of the event; `fields` are its members without id, timestamp and domain.
        """
        place = (PREFIX + where).encode()
        if not self._account.has_interest(place):
            return
        fields.update(id=nuid(), timestamp=self._clock.now(), domain=self._domain)
        self._account.publish(place, b"", b"", codec.encode(event(**fields)))  # type: ignore[arg-type]  # members by name

    # -- API -------------------------------------------------------------------------------------

    def audited(self) -> bool:
        """Return whether API audit events (`$JS.EVENT.ADVISORY.API`) have a subscriber."""
        return self._account.has_interest(API)

    def api_audit(
        self, client: ClientInfo, subject: bytes, request: bytes, response: bytes
    ) -> None:
        """Publish the audit event of one JetStream API request, with its response.

        Call this after the events of the request's effects (for example "stream created").
        """
        self.emit(
            "ADVISORY.API",
            ApiAudit,
            server=self._server,
            client=client,
            subject=text_of(subject),
            request=text_of(request),
            response=text_of(response),
        )

    def api_limit_reached(self, dropped: int) -> None:
        """Publish that `dropped` API requests were dropped because too many were waiting."""
        self.emit(
            "ADVISORY.API.LIMIT_REACHED", ApiLimitReached, server=self._server, dropped=dropped
        )

    # -- streams ---------------------------------------------------------------------------------

    def stream_created(self, stream: str) -> None:
        """Publish that a stream was created."""
        self.emit(f"ADVISORY.STREAM.CREATED.{stream}", StreamAction, stream=stream, action="create")

    def stream_updated(self, stream: str) -> None:
        """Publish that a stream has a new configuration."""
        self.emit(f"ADVISORY.STREAM.UPDATED.{stream}", StreamAction, stream=stream, action="modify")

    def stream_deleted(self, stream: str) -> None:
        """Publish that a stream was deleted, after the events of its consumers."""
        self.emit(f"ADVISORY.STREAM.DELETED.{stream}", StreamAction, stream=stream, action="delete")

    def batch_abandoned(self, stream: str, batch: bytes, reason: str) -> None:
        """Publish that an atomic batch was dropped before its commit.

        `reason` is incomplete, large, timeout or unsupported.
        """
        name = text_of(batch)
        self.emit(
            f"ADVISORY.STREAM.BATCH_ABANDONED.{stream}",
            BatchAbandoned,
            stream=stream,
            batch=name,
            reason=reason,
        )

    def stream_led(self, stream: str, leader: str, replicas: Replicas) -> None:
        """Publish the leader-elected advisory of a stream: the server `leader` leads it.

        `replicas` returns the replicas; it is called only if the advisory has a subscriber.
        """
        if self.has_interest("ADVISORY.STREAM.LEADER_ELECTED", stream):
            self.emit(
                f"ADVISORY.STREAM.LEADER_ELECTED.{stream}",
                StreamLeaderElected,
                stream=stream,
                leader=leader,
                replicas=replicas(),
            )

    def domain_led(self, leader: str, cluster: str, replicas: Replicas) -> None:
        """Publish the leader-elected advisory of the JetStream domain: server `leader` leads it.

        `leader` is the id of the server, `cluster` the name of its cluster. `replicas` returns the
        replicas; it is called only if the advisory has a subscriber.
        """
        if self.has_interest("ADVISORY.DOMAIN.LEADER_ELECTED"):
            self.emit(
                "ADVISORY.DOMAIN.LEADER_ELECTED",
                DomainLeaderElected,
                leader=leader,
                replicas=replicas(),
                cluster=cluster,
            )

    # -- consumers -------------------------------------------------------------------------------

    def consumer_created(self, stream: str, consumer: str) -> None:
        """Publish that a consumer was created."""
        self._consumer("CREATED", ConsumerAction, stream, consumer, action="create")

    def consumer_led(self, stream: str, consumer: str, leader: str, replicas: Replicas) -> None:
        """Publish the leader-elected advisory of a consumer: the server `leader` leads it.

        `replicas` returns the replicas; it is called only if the advisory has a subscriber.
        """
        if self.has_interest("ADVISORY.CONSUMER.LEADER_ELECTED", stream, consumer):
            self._consumer(
                "LEADER_ELECTED",
                ConsumerLeaderElected,
                stream,
                consumer,
                leader=leader,
                replicas=replicas(),
            )

    def consumer_deleted(self, stream: str, consumer: str) -> None:
        """Publish that a consumer was deleted."""
        self._consumer("DELETED", ConsumerAction, stream, consumer, action="delete")

    def consumer_paused(self, stream: str, consumer: str, *, paused: bool, until: int) -> None:
        """Publish that a consumer is paused until a time, or resumed (`paused` False).

        `until` is in nanoseconds since the Unix epoch.
        """
        self._consumer("PAUSE", ConsumerPause, stream, consumer, paused=paused, pause_until=until)

    def group_pinned(self, stream: str, consumer: str, group: str, pinned_id: str) -> None:
        """Publish that a priority group of a consumer is pinned to client `pinned_id`."""
        account = self._account.name
        self._consumer(
            "PINNED",
            GroupPinned,
            stream,
            consumer,
            account=account,
            group=group,
            pinned_id=pinned_id,
        )

    def group_unpinned(self, stream: str, consumer: str, group: str, reason: str) -> None:
        """Publish that a priority group of a consumer is no longer pinned to a client.

        `reason` is admin (a request to unpin) or timeout (the client sent no pull requests).
        """
        account = self._account.name
        self._consumer(
            "UNPINNED", GroupUnpinned, stream, consumer, account=account, group=group, reason=reason
        )

    def max_deliveries(self, stream: str, consumer: str, seq: int, deliveries: int) -> None:
        """Publish, once per message, that a message was delivered `max_deliver` times."""
        self._consumer(
            "MAX_DELIVERIES", MaxDeliver, stream, consumer, stream_seq=seq, deliveries=deliveries
        )

    def naked(
        self, stream: str, consumer: str, consumer_seq: ConsumerSeq, seq: int, deliveries: int
    ) -> None:
        """Publish that a client answered the delivery of a message with NAK."""
        self._consumer(
            "MSG_NAKED",
            Nak,
            stream,
            consumer,
            consumer_seq=consumer_seq,
            stream_seq=seq,
            deliveries=deliveries,
        )

    def terminated(
        self,
        stream: str,
        consumer: str,
        consumer_seq: ConsumerSeq,
        seq: int,
        deliveries: int,
        reason: str = "",
    ) -> None:
        """Publish that a delivered message was ended by TERM, or removed before its ack."""
        self._consumer(
            "MSG_TERMINATED",
            Terminated,
            stream,
            consumer,
            consumer_seq=consumer_seq,
            stream_seq=seq,
            deliveries=deliveries,
            reason=reason,
        )

    def acked(
        self,
        stream: str,
        consumer: str,
        consumer_seq: ConsumerSeq,
        seq: int,
        ack_time: int,
        deliveries: int,
    ) -> None:
        """Publish the metric of one sampled ack.

        `ack_time` is the time from the delivery to the ack, in nanoseconds.
        """
        self.emit(
            f"METRIC.CONSUMER.ACK.{stream}.{consumer}",
            AckMetric,
            stream=stream,
            consumer=consumer,
            consumer_seq=consumer_seq,
            stream_seq=seq,
            ack_time=ack_time,
            deliveries=deliveries,
        )

    def _consumer(
        self, kind: str, event: type[Event], stream: str, consumer: str, /, **fields: object
    ) -> None:
        self.emit(
            f"ADVISORY.CONSUMER.{kind}.{stream}.{consumer}",
            event,
            stream=stream,
            consumer=consumer,
            **fields,
        )
