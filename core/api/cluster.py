"""The handlers of API requests about leaders, replicas and the nodes of a cluster.

A leader answers a step-down request before it transfers the stream. All streams of a lease group
have one leader, so a step-down for a stream transfers its whole group. Replicas hold no data of
their own, since every node can read every message. To remove a peer from a stream therefore only
replaces it by another node.
"""

from core.api.call import ApiServer, Call, Nothing
from core.cluster.replica_groups import Group
from core.cluster.view import ClusterView
from core.model.api_errors import api_error
from core.model.cluster import (
    LeaderStepdownRequest,
    MetaStepdownResponse,
    RemovePeerRequest,
    ServerEvacuateResponse,
    ServerRemoveRequest,
    ServerRemoveResponse,
)
from core.model.consumer import (
    ConsumerEvacuatePeerResponse,
    ConsumerRemovePeerResponse,
    ConsumerStepdownResponse,
)
from core.model.stream import (
    StreamEvacuatePeerResponse,
    StreamRemovePeerResponse,
    StreamStepdownResponse,
)
from core.units import LeaseGroup

_DIRECTORY = LeaseGroup(0)
"""The lease group whose owner is the leader of the cluster."""


def group_of(server: ApiServer, names: tuple[str, ...]) -> Group:
    """Return the `Group` of the stream or consumer that a request names, to choose its replicas.

    Raises ApiError JSStreamNotFound or JSConsumerNotFound if it does not exist.
    """
    runner = server.registry.stream(names[0])
    if len(names) == 1:
        return runner.group
    consumer = runner.consumers.get(names[1])
    if consumer is None:
        raise api_error("JSConsumerNotFound")
    return consumer.group


def exists(server: ApiServer, names: tuple[str, ...]) -> None:
    """Check that the named stream or consumer exists; called before the body is decoded.

    Raises ApiError JSStreamNotFound or JSConsumerNotFound if not.
    """
    group_of(server, names)


async def step_stream_down(
    server: ApiServer, call: Call[LeaderStepdownRequest]
) -> StreamStepdownResponse:
    """Transfer the leadership of a stream, and of its whole lease group, to another node."""
    _step_down(server, call, group_of(server, call.names))
    return StreamStepdownResponse(success=True)


async def step_consumer_down(
    server: ApiServer, call: Call[LeaderStepdownRequest]
) -> ConsumerStepdownResponse:
    """Transfer the leadership of a consumer, and of its stream's lease group, to another node."""
    _step_down(server, call, group_of(server, call.names))
    return ConsumerStepdownResponse(success=True)


async def step_down(server: ApiServer, call: Call[LeaderStepdownRequest]) -> MetaStepdownResponse:
    """Transfer the leadership of the cluster (lease group 0) to another node."""
    _step_down(server, call, None)
    return MetaStepdownResponse(success=True)


def _step_down(server: ApiServer, call: Call[LeaderStepdownRequest], group: Group | None) -> None:
    cluster = _cluster(server)
    successor = cluster.successor(call.request.placement, group)
    cluster.transfer((_DIRECTORY if group is None else group.lease_group,), successor)


async def remove_stream_peer(
    server: ApiServer, call: Call[RemovePeerRequest]
) -> StreamRemovePeerResponse:
    """Replace a node in the replicas of a stream by another node."""
    _remove_peer(server, call)
    return StreamRemovePeerResponse(success=True)


async def evacuate_stream_peer(
    server: ApiServer, call: Call[RemovePeerRequest]
) -> StreamEvacuatePeerResponse:
    """Replace a node in the replicas of a stream by another node; no data have to be copied."""
    _remove_peer(server, call)
    return StreamEvacuatePeerResponse(success=True)


async def remove_consumer_peer(
    server: ApiServer, call: Call[RemovePeerRequest]
) -> ConsumerRemovePeerResponse:
    """Replace a node in the replicas of a consumer by another node."""
    _remove_peer(server, call)
    return ConsumerRemovePeerResponse(success=True)


async def evacuate_consumer_peer(
    server: ApiServer, call: Call[RemovePeerRequest]
) -> ConsumerEvacuatePeerResponse:
    """Replace a node in the replicas of a consumer by another node; no data have to be copied."""
    _remove_peer(server, call)
    return ConsumerEvacuatePeerResponse(success=True)


def _remove_peer(server: ApiServer, call: Call[RemovePeerRequest]) -> None:
    if not call.request.peer:
        raise api_error("JSBadRequest")
    _cluster(server).leave(group_of(server, call.names), call.request.peer)


async def cancel_move(server: ApiServer, call: Call[Nothing]) -> None:
    """Answer that no move is in progress: replicas move at once, so there is nothing to cancel."""
    group_of(server, call.names)
    raise api_error("JSStreamReconfigureNotInProgress")


async def remove_server(server: ApiServer, call: Call[ServerRemoveRequest]) -> ServerRemoveResponse:
    """Delete a node from the list of nodes in the database, if it has stopped.

    Does nothing for a running node: it stays a member.
    """
    cluster = _cluster(server)
    node = _member(cluster, call)
    if not cluster.lives(node):
        await cluster.remove(node)
    return ServerRemoveResponse(success=True)


async def evacuate_server(
    server: ApiServer, call: Call[ServerRemoveRequest]
) -> ServerEvacuateResponse:
    """Make a node transfer all its lease groups, and acquire none until nodes join or leave."""
    cluster = _cluster(server)
    node = _member(cluster, call)
    if node == cluster.own:
        cluster.evacuate()
    elif cluster.lives(node) and not await server.node_queries.evacuate(node):
        raise api_error("JSClusterNotAvail")
    return ServerEvacuateResponse(success=True)


def _member(cluster: ClusterView, call: Call[ServerRemoveRequest]) -> str:
    node = cluster.member(call.request.peer, call.request.peer_id)
    if not node:
        raise api_error("JSClusterServerNotMember")
    return node


def _cluster(server: ApiServer) -> ClusterView:
    cluster = server.registry.services.cluster
    assert cluster is not None, "only then these requests are served"
    return cluster
