"""Prometheus metrics: numbers of the NATS server, and counts of HTTP requests and feeds.

The numbers of the server are a `Snapshot`, which `jetgate.server_numbers` creates. Each scrape
takes one snapshot on the event loop; a thread then formats it.
"""

import platform
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from gateway.http.problems import kind_of
from gateway.monitoring.events import OperatorEvent, RequestDone, RequestFailed
from gateway.monitoring.feed_counts import FeedCounts

REQUEST_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


@dataclass(frozen=True, slots=True)
class Histogram:
    """A histogram: observations per bucket (not cumulative) and their sum.

    Attributes:
        bounds: Upper bounds of the buckets, ascending, in the unit of the metric.
        counts: Observations of each bucket, then those beyond the last bound.
        total: Sum of all observations.
    """

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


@dataclass(frozen=True, slots=True)
class StreamNumbers:
    """Metrics of one stream: messages, bytes, first and last sequence, and number of consumers."""

    name: str
    messages: int
    bytes: int
    first_seq: int
    last_seq: int
    consumers: int = 0


@dataclass(frozen=True, slots=True)
class ConsumerNumbers:
    """Metrics of one consumer: messages pending, unacknowledged and redelivered, waiting pull
    requests.
    """

    stream: str
    name: str
    num_pending: int
    num_ack_pending: int
    num_redelivered: int = 0
    num_waiting: int = 0


@dataclass(frozen=True, slots=True)
class RemoteNumbers:
    """Metrics of a connection to another NATS system (a remote, for mirrors and sources).

    Attributes:
        rtt_seconds: Round-trip time of a PING, in seconds; 0: not measured.
        requests: API requests sent to the remote.
        deliveries: Messages that the remote's consumers have delivered.
    """

    name: str
    is_connected: bool
    rtt_seconds: float
    requests: int
    deliveries: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The numbers of a node at one moment. Counters count since the node's start.

    Attributes:
        is_leader: True if this node leads the stream directory (creates and deletes streams).
        has_leader: True if this node leads all streams or has connections to their leaders.
        groups: Number of lease groups (sets of streams with one leader) that this node owns.
        links: Number of connected peers (other nodes of the same database).
        is_storage_up: False while a known problem prevents storing messages.
        commit_age: Seconds since the last commit of messages; None: none yet.
        outages: Number of storage outages.
        outage_seconds: Duration of all storage outages, in seconds.
        lost_sequences: Number of acknowledged sequences that storage has lost.
        authentication_failures: Connections and requests with wrong credentials.
        refused_connections: Connections refused because file descriptors ran out.
        clock_offset: Offset of the local clock from the database clock, in seconds (positive: the
            local clock is ahead); None: not measured yet.
        refused: Number of messages answered with an error, by `err_code`.
        unstored_copies: Number of messages that mirrors and sources could not store, by `err_code`.
        version: Version of the product.
        in_bytes: Bytes of messages received from clients.
        out_bytes: Bytes of messages sent to clients.
        commit_seconds: Durations of commits, in seconds; None: this node stores no streams.
        loop_stalls: Number of event-loop ticks longer than 100 ms.
    """

    is_leader: bool = False
    has_leader: bool = True
    groups: int = 0
    links: int = 0
    is_storage_up: bool = True
    commit_age: float | None = None
    outages: int = 0
    outage_seconds: float = 0.0
    lost_sequences: int = 0
    authentication_failures: int = 0
    refused_connections: int = 0
    clock_offset: float | None = None
    refused: Mapping[int, int] = field(default_factory=dict)
    unstored_copies: Mapping[int, int] = field(default_factory=dict)
    version: str = ""

    streams: Sequence[StreamNumbers] = ()
    consumers: Sequence[ConsumerNumbers] = ()
    remotes: Sequence[RemoteNumbers] = ()
    connections: int = 0
    subscriptions: int = 0
    in_msgs: int = 0
    out_msgs: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    slow_consumers: int = 0
    commits: int = 0
    commit_failures: int = 0
    commit_seconds: Histogram | None = None
    loop_stalls: int = 0
    rows_swept: int | None = None
    """Rows deleted from the database after their messages were removed.

    None: this node stores no streams.
    """


class Metrics(Collector):
    """Collects metrics and formats them for Prometheus; counts HTTP requests by `record`.

    Attributes:
        feeds: Counts of feeds, which the feeds themselves update.
    """

    def __init__(self, snapshot: Callable[[], Snapshot] | None = None) -> None:
        self._snapshot = snapshot
        self._taken = Snapshot()
        self._requests: dict[tuple[str, int], int] = {}
        self._seconds: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        self._failures = 0
        self.feeds = FeedCounts()
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        if snapshot is not None:
            ProcessCollector(registry=self._registry)

    def record(self, event: OperatorEvent) -> None:
        """Count a finished or failed HTTP request; other events are ignored."""
        match event:
            case RequestDone(operation, _, status, seconds):
                key = (operation, status)
                self._requests[key] = self._requests.get(key, 0) + 1
                counts = self._seconds.get(operation)
                if counts is None:
                    counts = self._seconds[operation] = [0] * (len(REQUEST_BUCKETS) + 1)
                counts[bisect_left(REQUEST_BUCKETS, seconds)] += 1
                self._sums[operation] = self._sums.get(operation, 0.0) + seconds
            case RequestFailed():
                self._failures += 1

    def refresh(self) -> None:
        """Take a new snapshot of the node's numbers; call it on the event loop, before `text`."""
        if self._snapshot is not None:
            self._taken = self._snapshot()

    def text(self, accept: str) -> tuple[bytes, str]:
        """Format all metrics of the last snapshot. Returns the text and its content type.

        The format is the one that `accept`, the scraper's header Accept, prefers.
        """
        encoder, content_type = choose_encoder(accept)
        return encoder(self._registry), content_type

    def collect(self) -> Iterable[Metric]:
        """Yield all metric families: the numbers of the last snapshot, HTTP requests and feeds."""
        numbers = self._taken
        if self._snapshot is not None:
            yield from _state(numbers)
            yield from _server(numbers)
            yield from _streams(numbers.streams)
            yield from _consumers(numbers.consumers)
            yield from _remotes(numbers.remotes)
        yield from self._http()
        yield from _feeds(self.feeds)

    def _http(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            "jetgate_http_requests", "Requests answered.", labels=("operation", "status")
        )
        for (operation, status), count in list(self._requests.items()):
            requests.add_metric((operation, str(status)), count)
        yield requests
        seconds = HistogramMetricFamily(
            "jetgate_http_request_seconds", "Time until an answer began.", labels=("operation",)
        )
        for operation, counts in list(self._seconds.items()):
            histogram = Histogram(REQUEST_BUCKETS, tuple(counts), self._sums[operation])
            seconds.add_metric((operation,), _buckets(histogram), histogram.total)
        yield seconds
        yield CounterMetricFamily(
            "jetgate_http_failures", "Requests that failed by our fault.", self._failures
        )


def _state(numbers: Snapshot) -> Iterable[Metric]:
    """Yield metrics of the node's version, leadership, storage, clock and refused messages."""
    build = GaugeMetricFamily(
        "jetgate_build_info",
        "Version of jetgate and of Python; always 1.",
        labels=("version", "python"),
    )
    build.add_metric((numbers.version, platform.python_version()), 1)
    yield build
    gauges = (
        ("jetgate_leader", "Whether this node leads the stream directory.", numbers.is_leader),
        ("jetgate_has_leader", "Whether it reaches who leads each stream.", numbers.has_leader),
        ("jetgate_lease_groups", "Lease groups that it leads.", numbers.groups),
        ("jetgate_links", "Connections to other nodes of its database.", numbers.links),
        ("jetgate_storage_up", "Whether messages can be stored.", numbers.is_storage_up),
    )
    for name, text, value in gauges:
        yield GaugeMetricFamily(name, text, value)
    if numbers.commit_age is not None:
        text = "Seconds since messages were committed last."
        yield GaugeMetricFamily("jetgate_last_commit_age_seconds", text, numbers.commit_age)
    if numbers.clock_offset is not None:
        text = "What the clock of this machine is ahead of PostgreSQL's."
        yield GaugeMetricFamily("jetgate_clock_offset_seconds", text, numbers.clock_offset)
    by_error = (
        ("jetgate_refused_msgs", "Messages answered with an error.", numbers.refused),
        (
            "jetgate_unstored_copies",
            "Messages that mirrors and sources could not store.",
            numbers.unstored_copies,
        ),
    )
    for name, text, counts in by_error:
        family = CounterMetricFamily(name, text, labels=("err_code", "error"))
        for code, count in counts.items():
            family.add_metric((str(code), kind_of(code)), count)
        yield family


def _feeds(counts: FeedCounts) -> Iterable[Metric]:
    yield GaugeMetricFamily("jetgate_http_sockets", "Open WebSockets.", counts.sockets)
    feeds = GaugeMetricFamily("jetgate_http_feeds", "Open feeds.", labels=("kind",))
    sent = CounterMetricFamily(
        "jetgate_http_feed_messages", "Messages sent by feeds.", labels=("kind",)
    )
    dropped = CounterMetricFamily(
        "jetgate_http_feed_dropped",
        "Messages that feeds dropped, because their readers were too slow.",
        labels=("kind",),
    )
    for kind, count in counts.kinds.items():
        feeds.add_metric((kind,), count.open)
        sent.add_metric((kind,), count.sent)
        dropped.add_metric((kind,), count.dropped)
    yield from (feeds, sent, dropped)


def _server(numbers: Snapshot) -> Iterable[Metric]:
    yield GaugeMetricFamily("jetgate_connections", "Open connections.", numbers.connections)
    yield GaugeMetricFamily("jetgate_subscriptions", "Subscriptions.", numbers.subscriptions)
    counters = (
        ("jetgate_in_msgs", "Messages received from clients.", numbers.in_msgs),
        ("jetgate_out_msgs", "Messages sent to clients.", numbers.out_msgs),
        ("jetgate_in_bytes", "Bytes of messages received.", numbers.in_bytes),
        ("jetgate_out_bytes", "Bytes of messages sent.", numbers.out_bytes),
        (
            "jetgate_slow_consumers",
            "Connections cut for reading too slowly.",
            numbers.slow_consumers,
        ),
        ("jetgate_commits", "Transactions committed.", numbers.commits),
        ("jetgate_commit_failures", "Transactions that failed.", numbers.commit_failures),
        ("jetgate_storage_outages", "Times that storage was away.", numbers.outages),
        (
            "jetgate_storage_outage_seconds",
            "Seconds that storage was away.",
            numbers.outage_seconds,
        ),
        (
            "jetgate_lost_sequences",
            "Acknowledged sequences that the database has lost.",
            numbers.lost_sequences,
        ),
        (
            "jetgate_authentication_failures",
            "Connections and requests with wrong credentials.",
            numbers.authentication_failures,
        ),
        (
            "jetgate_refused_connections",
            "Connections refused for want of file descriptors.",
            numbers.refused_connections,
        ),
        ("jetgate_loop_stalls", "Ticks of the event loop over 100 ms.", numbers.loop_stalls),
    )
    for name, text, value in counters:
        yield CounterMetricFamily(name, text, value)
    if numbers.commit_seconds is not None:
        family = HistogramMetricFamily("jetgate_commit_seconds", "Time of a commit.")
        family.add_metric((), _buckets(numbers.commit_seconds), numbers.commit_seconds.total)
        yield family
    if numbers.rows_swept is not None:
        text = "Rows deleted after they were logically gone."
        yield GaugeMetricFamily("jetgate_rows_swept", text, numbers.rows_swept)


def _streams(streams: Sequence[StreamNumbers]) -> Iterable[Metric]:
    columns: tuple[tuple[str, str, Callable[[StreamNumbers], int]], ...] = (
        ("jetgate_stream_messages", "Messages in the stream.", lambda s: s.messages),
        ("jetgate_stream_bytes", "Bytes in the stream.", lambda s: s.bytes),
        ("jetgate_stream_first_seq", "First sequence.", lambda s: s.first_seq),
        ("jetgate_stream_last_seq", "Last sequence.", lambda s: s.last_seq),
        ("jetgate_stream_consumers", "Consumers of the stream.", lambda s: s.consumers),
    )
    for name, text, value in columns:
        family = GaugeMetricFamily(name, text, labels=("stream",))
        for stream in streams:
            family.add_metric((stream.name,), value(stream))
        yield family


def _consumers(consumers: Sequence[ConsumerNumbers]) -> Iterable[Metric]:
    columns: tuple[tuple[str, str, Callable[[ConsumerNumbers], int]], ...] = (
        ("jetgate_consumer_num_pending", "Messages not yet delivered.", lambda c: c.num_pending),
        ("jetgate_consumer_num_ack_pending", "Deliveries not acked.", lambda c: c.num_ack_pending),
        ("jetgate_consumer_num_redelivered", "Redelivered messages.", lambda c: c.num_redelivered),
        ("jetgate_consumer_num_waiting", "Waiting pull requests.", lambda c: c.num_waiting),
    )
    for name, text, value in columns:
        family = GaugeMetricFamily(name, text, labels=("stream", "consumer"))
        for consumer in consumers:
            family.add_metric((consumer.stream, consumer.name), value(consumer))
        yield family


def _remotes(remotes: Sequence[RemoteNumbers]) -> Iterable[Metric]:
    connected = GaugeMetricFamily(
        "jetgate_remote_connected", "Whether the remote is connected.", labels=("remote",)
    )
    rtt = GaugeMetricFamily(
        "jetgate_remote_rtt_seconds", "Time of a PING; 0: not known.", labels=("remote",)
    )
    requests = CounterMetricFamily(
        "jetgate_remote_requests", "API requests sent to the remote.", labels=("remote",)
    )
    deliveries = CounterMetricFamily(
        "jetgate_remote_deliveries", "Messages its consumers delivered.", labels=("remote",)
    )
    for remote in remotes:
        label = (remote.name,)
        connected.add_metric(label, remote.is_connected)
        rtt.add_metric(label, remote.rtt_seconds)
        requests.add_metric(label, remote.requests)
        deliveries.add_metric(label, remote.deliveries)
    yield from (connected, rtt, requests, deliveries)


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    buckets: list[tuple[str, float]] = []
    running = 0
    for bound, count in zip((*histogram.bounds, float("inf")), histogram.counts, strict=True):
        running += count
        buckets.append(("+Inf" if bound == float("inf") else str(bound), running))
    return buckets
