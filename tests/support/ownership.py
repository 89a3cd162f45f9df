"""Changes to the lease groups that a node owns, including transfers, without storage."""

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
    """Return the ownership state that a mesh announces."""
    return cast(Dispatch[RouteLink], mesh._ownership)


def owners(mesh: DatabaseMesh) -> Mapping[LeaseGroup, RouteLink]:
    """Return, by group, the links to the peers that own the groups."""
    return dispatch_of(mesh).ownership.owners


def own(dispatch: Dispatch[Any], epochs: Mapping[LeaseGroup, int]) -> None:
    """Make a node the owner of exactly these groups."""
    ownership = dispatch.ownership
    if gone := ownership.leases.keys() - epochs.keys():
        dispatch.post(LeasesLost(frozenset(gone)))
    new = {group: epoch for group, epoch in epochs.items() if group not in ownership.owned}
    dispatch.post(LeasesAcquired(new))
    dispatch.post(Loaded(frozenset(new) & ownership.leases.keys(), Nanos(1)))


def transfer(
    dispatch: Dispatch[Any], to: Mapping[str, Collection[LeaseGroup]], *, is_requested: bool = False
) -> None:
    """Transfer groups of a node to peers; `to` has the groups by name of the peer."""
    asked = TransferRequested(to, is_requested)
    dispatch.post(asked)
    dispatch.post(Drained(asked))
    dispatch.post(Released(asked))


def lost(leases: LeaseSession, call: Callable[[frozenset[LeaseGroup]], None]) -> None:
    """Call `call` with the groups that another node acquires, once a lease session learns of it."""

    def depose(step: Step) -> None:
        is_at_end = isinstance(step.event, LeasesLost) and not step.event.why
        if not is_at_end and not isinstance(step.event, LoadFailed):
            call(step.groups)

    leases._ownership.subscribe({Command.DEPOSE: depose})


def epochs_of(leases: LeaseSession) -> Mapping[LeaseGroup, int]:
    """Return the fencing tokens of the groups whose leases a session holds."""
    return leases._ownership.ownership.leases


async def give(leases: LeaseSession, groups: Collection[LeaseGroup]) -> None:
    """Release groups that were acquired and never loaded."""
    leases._ownership.post(LoadFailed(frozenset(groups)))
    await leases.release_groups(groups)
