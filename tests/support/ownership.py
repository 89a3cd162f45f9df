"""Changes to the lease groups that a node owns, without storage: events for its ownership state.

The ownership state (`Dispatch`) is that of the product, `core.node.ownership`.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

from core.node.lease_session import LeaseSession
from core.node.ownership.dispatch import Dispatch
from core.node.ownership.state import (
    Command,
    Drained,
    LeasesAcquired,
    LeasesLost,
    Loaded,
    LoadFailed,
    Released,
    Step,
    TransferRequested,
)
from core.route.database_mesh import DatabaseMesh
from core.route.link import RouteLink
from core.units import LeaseGroup, Nanos


def dispatch_of(mesh: DatabaseMesh) -> Dispatch[RouteLink]:
    """Return the ownership state that a mesh announces to its peers."""
    return cast(Dispatch[RouteLink], mesh._ownership)


def owners(mesh: DatabaseMesh) -> Mapping[LeaseGroup, RouteLink]:
    """Return the link to the owning peer of each lease group that a peer owns."""
    return dispatch_of(mesh).ownership.owners


def own(dispatch: Dispatch[Any], epochs: Mapping[LeaseGroup, int]) -> None:
    """Make a node the owner of exactly these lease groups, with these fencing tokens (epochs)."""
    ownership = dispatch.ownership
    if gone := ownership.leases.keys() - epochs.keys():
        dispatch.post(LeasesLost(frozenset(gone)))
    new = {group: epoch for group, epoch in epochs.items() if group not in ownership.owned}
    dispatch.post(LeasesAcquired(new))
    dispatch.post(Loaded(frozenset(new) & ownership.leases.keys(), Nanos(1)))


def transfer(
    dispatch: Dispatch[Any], to: Mapping[str, Collection[LeaseGroup]], *, is_requested: bool = False
) -> None:
    """Complete a transfer of lease groups from a node to peers.

    Args:
        dispatch: The ownership state of the node.
        to: The groups for each peer, by name of the peer.
        is_requested: True for a transfer on request of a client, False for rebalancing.
    """
    asked = TransferRequested(to, is_requested)
    dispatch.post(asked)
    dispatch.post(Drained(asked))
    dispatch.post(Released(asked))


def lost(leases: LeaseSession, call: Callable[[frozenset[LeaseGroup]], None]) -> None:
    """Subscribe `call` to the loss of lease groups that another node has acquired.

    `call` gets the groups when the lease session detects the loss.
    """

    def depose(step: Step) -> None:
        is_at_end = isinstance(step.event, LeasesLost) and not step.event.why
        if not is_at_end and not isinstance(step.event, LoadFailed):
            call(step.groups)

    leases._ownership.subscribe({Command.DEPOSE: depose})


def epochs_of(leases: LeaseSession) -> Mapping[LeaseGroup, int]:
    """Return the fencing token of each lease group whose lease a session holds."""
    return leases._ownership.ownership.leases


async def give(leases: LeaseSession, groups: Collection[LeaseGroup]) -> None:
    """Release lease groups that a session acquired and whose streams were not loaded."""
    leases._ownership.post(LoadFailed(frozenset(groups)))
    await leases.release_groups(groups)
