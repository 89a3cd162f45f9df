"""The JSON of leaders, replicas and alternates in stream infos, and of requests about them."""

from typing import Annotated

import msgspec

from core.model.response import TYPE_PREFIX, Response
from core.model.wire import OMIT, Duration, Int, OptionalTime, Time, Uint64


class PeerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a replica group.

    `active` is nanoseconds since its last heartbeat, `lag` the number of changes that it lacks,
    `peer` its id.
    """

    name: str = ""
    current: bool = False
    offline: Annotated[bool, OMIT] = False
    active: Duration = 0
    lag: Annotated[Uint64, OMIT] = 0
    peer: str = ""


class ClusterInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The leader of a stream or consumer, the time since which it leads, and the other replicas."""

    name: Annotated[str, OMIT] = ""
    raft_group: Annotated[str, OMIT] = ""
    leader: Annotated[str, OMIT] = ""
    leader_since: Annotated[OptionalTime, OMIT] = None
    system_account: Annotated[bool, OMIT] = False
    traffic_account: Annotated[str, OMIT] = ""
    replicas: Annotated[tuple[PeerInfo, ...], OMIT] = ()


class StreamAlternate(msgspec.Struct, frozen=True, kw_only=True):
    """A stream from which the same messages can be read: the stream itself, or a mirror of it."""

    name: str = ""
    domain: Annotated[str, OMIT] = ""
    cluster: str = ""


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """The requested cluster, tags or node (`preferred`) for a stream or a leader."""

    cluster: Annotated[str, OMIT] = ""
    tags: Annotated[tuple[str, ...] | None, OMIT] = None
    preferred: Annotated[str, OMIT] = ""


class LeaderStepdownRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of META.LEADER.STEPDOWN and of STREAM and CONSUMER.LEADER.STEPDOWN."""

    go_name = "JSApiLeaderStepdownRequest"
    placement: Annotated[Placement | None, OMIT] = None


class RemovePeerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of PEER.REMOVE and PEER.EVACUATE: the name or peer id of a node."""

    go_name = "JSApiStreamRemovePeerRequest"
    peer: str = ""


class ServerRemoveRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The body of SERVER.REMOVE and SERVER.EVACUATE: a node; `peer_id` takes precedence."""

    go_name = "JSApiMetaServerRemoveRequest"
    peer: str = ""
    peer_id: Annotated[str, OMIT] = ""


class MetaStepdownResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "meta_leader_stepdown_response"
    success: Annotated[bool, OMIT] = False


class ServerRemoveResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "meta_server_remove_response"
    success: Annotated[bool, OMIT] = False


class ServerEvacuateResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "meta_server_evacuate_response"
    success: Annotated[bool, OMIT] = False


class MetaSnapshotStats(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the meta group's raft log, always empty: PostgreSQL stores the streams."""

    pending_entries: Uint64 = 0
    pending_size: Uint64 = 0
    last_time: Time = 0


class MetaCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The member `meta_cluster` of /jsz: the servers of the cluster and its leader."""

    name: Annotated[str, OMIT] = ""
    leader: Annotated[str, OMIT] = ""
    peer: Annotated[str, OMIT] = ""
    replicas: Annotated[tuple[PeerInfo, ...], OMIT] = ()
    cluster_size: Int = 0
    quorum_needed: Int = 0
    pending: Int = 0
    pending_requests: Int = 0
    pending_infos: Int = 0
    snapshot: MetaSnapshotStats = MetaSnapshotStats()
