"""The table of API requests: subject, body, request type, response type, handler.

Pull requests (`CONSUMER.MSG.NEXT`) and `DIRECT.GET` are not in the table: each consumer and stream
subscribes to its own subject, so that a request to a missing one gets "no responders".
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import msgspec

from core.api import account, cluster, consumers, messages, streams, transactions
from core.api.call import ApiServer, Body, Call, Nothing
from core.model import cluster as m
from core.model import consumer as c
from core.model import stream as s
from core.model import transactions as t
from core.model.account import AccountInfoResponse
from core.model.message import MsgGetRequest, MsgGetResponse
from core.model.response import Response

Handler = Callable[[ApiServer, Call[Any]], Awaitable[Response | None]]


class Level(Enum):
    """The time at which a request's header `Nats-Required-Api-Level` is checked, if at all.

    It is checked before or after the body of the request is decoded.
    """

    BEFORE_BODY = auto()
    AFTER_BODY = auto()
    NEVER = auto()


@dataclass(frozen=True, slots=True)
class Route:
    """One row of the table of API requests.

    Attributes:
        subject: The subject without the prefix: `*` stands for one name, `>` for one or more.
        body: The way to decode the body.
        request: The type of the decoded body.
        response: The type of the response.
        handler: Serves the request.
        level: The time at which the required API level is checked.
    """

    subject: str
    body: Body
    request: type[msgspec.Struct]
    response: type[Response]
    handler: Handler
    level: Level = Level.BEFORE_BODY
    is_counted: bool = True
    """True if account info counts the request even if it succeeds."""
    exists: Callable[[ApiServer, tuple[str, ...]], bool] | None = None
    """Returns whether the named stream or consumer exists; if not, the request gets no answer."""
    before: Callable[[ApiServer, tuple[str, ...]], None] | None = None
    """Checks the names in the subject before the body is decoded; raises ApiError if invalid."""
    may_wait: bool = False
    """True if the answer may take long: the stream's other requests are served meanwhile."""


_AFTER, _NEVER = Level.AFTER_BODY, Level.NEVER
_CREATE = c.CreateConsumerRequest, c.ConsumerCreateResponse

ROUTES: tuple[Route, ...] = (
    Route("INFO", Body.IGNORED, Nothing, AccountInfoResponse, account.info),
    # streams
    Route(
        "STREAM.CREATE.*", Body.JSON,
        s.StreamConfigRequest, s.StreamCreateResponse, streams.create,
    ),
    Route(
        "STREAM.UPDATE.*", Body.JSON,
        s.StreamConfigRequest, s.StreamUpdateResponse, streams.update,
    ),
    Route("STREAM.INFO.*", Body.OPTIONAL, s.StreamInfoRequest, s.StreamInfoResponse, streams.info),
    Route("STREAM.NAMES", Body.OPTIONAL, s.StreamPageRequest, s.StreamNamesResponse, streams.names),
    Route(
        "STREAM.LIST", Body.OPTIONAL,
        s.StreamListRequest, s.StreamListResponse, streams.list_streams,
    ),
    Route("STREAM.DELETE.*", Body.EMPTY, Nothing, s.StreamDeleteResponse, streams.delete),
    Route(
        "STREAM.PURGE.*", Body.OPTIONAL,
        s.StreamPurgeRequest, s.StreamPurgeResponse, streams.purge,
    ),
    Route(
        "STREAM.MSG.GET.*", Body.NEEDED,
        MsgGetRequest, MsgGetResponse, messages.get, is_counted=False,
    ),
    Route(
        "STREAM.MSG.DELETE.*", Body.NEEDED,
        s.MsgDeleteRequest, s.MsgDeleteResponse, messages.delete,
    ),
    Route(
        "STREAM.SNAPSHOT.*", Body.NEEDED,
        s.SnapshotRequest, s.StreamSnapshotResponse, streams.snapshot,
    ),
    Route(
        "STREAM.RESTORE.*", Body.NEEDED,
        s.RestoreRequest, s.StreamRestoreResponse, streams.restore,
    ),
    Route(
        "STREAM.LEADER.STEPDOWN.*", Body.IGNORED,
        Nothing, s.StreamStepdownResponse, streams.clustered, _NEVER,
    ),
    Route(
        "STREAM.PEER.REMOVE.*", Body.IGNORED,
        Nothing, s.StreamRemovePeerResponse, streams.clustered, _NEVER,
    ),
    Route(
        "STREAM.PEER.EVACUATE.*", Body.IGNORED,
        Nothing, s.StreamEvacuatePeerResponse, streams.clustered, _NEVER,
    ),
    Route(
        "STREAM.CANCEL_MOVE.*", Body.IGNORED,
        Nothing, s.StreamCancelMoveResponse, streams.clustered, _NEVER,
    ),
    # consumers
    Route("CONSUMER.CREATE.*", Body.JSON, *_CREATE, consumers.create, _AFTER),
    Route("CONSUMER.CREATE.*.>", Body.JSON, *_CREATE, consumers.create, _AFTER),
    Route("CONSUMER.DURABLE.CREATE.*.*", Body.JSON, *_CREATE, consumers.create_durable, _AFTER),
    Route(
        "CONSUMER.NAMES.*", Body.OPTIONAL,
        c.ConsumerPageRequest, c.ConsumerNamesResponse, consumers.names,
    ),
    Route(
        "CONSUMER.LIST.*", Body.OPTIONAL,
        c.ConsumerPageRequest, c.ConsumerListResponse, consumers.list_consumers,
    ),
    Route("CONSUMER.INFO.*.*", Body.EMPTY, Nothing, c.ConsumerInfoResponse, consumers.info, _AFTER),
    Route("CONSUMER.DELETE.*.*", Body.EMPTY, Nothing, c.ConsumerDeleteResponse, consumers.delete),
    Route(
        "CONSUMER.PAUSE.*.*", Body.OPTIONAL,
        c.ConsumerPauseRequest, c.ConsumerPauseResponse, consumers.pause, _AFTER,
    ),
    Route(
        "CONSUMER.UNPIN.*.*", Body.LENIENT,
        c.ConsumerUnpinRequest, c.ConsumerUnpinResponse, consumers.unpin,
    ),
    Route(
        "CONSUMER.RESET.*.*", Body.LENIENT,
        c.ConsumerResetRequest, c.ConsumerResetResponse, consumers.reset, exists=consumers.exists,
    ),
    Route(
        "CONSUMER.LEADER.STEPDOWN.*.*", Body.IGNORED,
        Nothing, c.ConsumerStepdownResponse, streams.clustered, _NEVER,
    ),
    Route(
        "CONSUMER.PEER.REMOVE.*.*", Body.IGNORED,
        Nothing, c.ConsumerRemovePeerResponse, streams.clustered, _NEVER,
    ),
    Route(
        "CONSUMER.PEER.EVACUATE.*.*", Body.IGNORED,
        Nothing, c.ConsumerEvacuatePeerResponse, streams.clustered, _NEVER,
    ),
)  # fmt: skip

_MOVES = m.LeaderStepdownRequest
_PEER = m.RemovePeerRequest

CLUSTER_ROUTES: tuple[Route, ...] = (
    Route(
        "STREAM.LEADER.STEPDOWN.*", Body.OPTIONAL,
        _MOVES, s.StreamStepdownResponse, cluster.step_stream_down, before=cluster.exists,
    ),
    Route(
        "STREAM.PEER.REMOVE.*", Body.NEEDED,
        _PEER, s.StreamRemovePeerResponse, cluster.remove_stream_peer,
    ),
    Route(
        "STREAM.PEER.EVACUATE.*", Body.NEEDED,
        _PEER, s.StreamEvacuatePeerResponse, cluster.evacuate_stream_peer,
    ),
    Route(
        "STREAM.CANCEL_MOVE.*", Body.IGNORED,
        Nothing, s.StreamCancelMoveResponse, cluster.cancel_move,
    ),
    Route(
        "CONSUMER.LEADER.STEPDOWN.*.*", Body.OPTIONAL,
        _MOVES, c.ConsumerStepdownResponse, cluster.step_consumer_down, before=cluster.exists,
    ),
    Route(
        "CONSUMER.PEER.REMOVE.*.*", Body.NEEDED,
        _PEER, c.ConsumerRemovePeerResponse, cluster.remove_consumer_peer,
    ),
    Route(
        "CONSUMER.PEER.EVACUATE.*.*", Body.NEEDED,
        _PEER, c.ConsumerEvacuatePeerResponse, cluster.evacuate_consumer_peer,
    ),
)  # fmt: skip
"""Requests that are served in a cluster, and refused by a server that runs alone."""

META_ROUTES: tuple[Route, ...] = (
    Route(
        "META.LEADER.STEPDOWN", Body.OPTIONAL,
        _MOVES, m.MetaStepdownResponse, cluster.step_down,
    ),
    Route(
        "SERVER.REMOVE", Body.NEEDED,
        m.ServerRemoveRequest, m.ServerRemoveResponse, cluster.remove_server,
    ),
    Route(
        "SERVER.EVACUATE", Body.NEEDED,
        m.ServerRemoveRequest, m.ServerEvacuateResponse, cluster.evacuate_server,
    ),
)  # fmt: skip
"""Requests about the cluster itself, served only in the system account."""

OWN_ROUTES: tuple[Route, ...] = (
    Route("TXN.OPEN.*", Body.NEEDED, t.OpenRequest, t.OpenResponse, transactions.open_run),
    Route(
        "TXN.COMMIT.*", Body.NEEDED,
        t.CommitRequest, t.CommitResponse, transactions.commit, may_wait=True,
    ),
    Route("TXN.INFO.*", Body.EMPTY, Nothing, t.LedgersResponse, transactions.info),
    Route("TXN.DELETE.*", Body.NEEDED, t.ForgetRequest, t.ForgetResponse, transactions.forget),
)  # fmt: skip
"""Requests that only jetgate serves, with the prefix `core.api.dispatcher.OWN_PREFIX`."""
