"""Whom a node dials, by the rows of all nodes."""

# Subject: several nodes

from core.cluster.membership import LONE_GRACE, SILENT, DialChanges, Membership
from core.storage.leases import PeerRow
from core.units import Nanos

SECOND = 1_000_000_000
OWN = PeerRow("me", "me", "h", 1, Nanos(0), Nanos(50 * SECOND))


def older(name: str, port: int = 1, silence: int = 0) -> PeerRow:
    return PeerRow(name, name, "h", port, Nanos(silence), Nanos(60 * SECOND))


def newer(name: str, port: int = 1) -> PeerRow:
    return PeerRow(name, name, "h", port, Nanos(0), Nanos(40 * SECOND))


def test_the_later_of_two_dials_at_once_and_only_once() -> None:
    members = Membership("me")
    rows = [OWN, older("a", 2), older("b", 3)]

    assert members.follow(rows, {"b"}, 0) == DialChanges(dial=[("h", 2)])
    assert members.follow(rows, {"b"}, SECOND) == DialChanges()
    assert members.follow(rows, {"a", "b"}, 2 * SECOND) == DialChanges()


def test_the_earlier_of_two_leaves_it_to_the_other_for_a_while() -> None:
    members = Membership("me")
    rows = [OWN, newer("a", 2)]

    assert members.follow(rows, (), 0) == DialChanges()
    assert members.follow(rows, (), LONE_GRACE - 1) == DialChanges()
    assert members.follow(rows, (), LONE_GRACE) == DialChanges(dial=[("h", 2)])


def test_a_link_that_comes_meanwhile_and_goes_again_is_waited_for_anew() -> None:
    members = Membership("me")
    rows = [OWN, newer("a", 2)]
    members.follow(rows, (), 0)

    assert members.follow(rows, {"a"}, LONE_GRACE) == DialChanges()
    assert members.follow(rows, (), LONE_GRACE + 1) == DialChanges()
    assert members.follow(rows, (), 2 * LONE_GRACE + 1) == DialChanges(dial=[("h", 2)])


def test_nodes_that_are_gone_silent_or_moved_are_dialled_no_more() -> None:
    members = Membership("me")
    members.follow([OWN, older("a", 2), older("b", 3), older("c", 4)], (), 0)

    rows = [OWN, older("b", 3, silence=SILENT), older("c", 5)]
    assert members.follow(rows, (), 1) == DialChanges(
        dial=[("h", 5)], drop=[("h", 2), ("h", 3), ("h", 4)]
    )


def test_a_node_not_listed_yet_dials_all_but_itself_and_unreachable_nodes() -> None:
    members = Membership("me")

    assert members.follow([newer("a", 2), newer("b", 0)], (), 0) == DialChanges(dial=[("h", 2)])
    assert Membership("me").follow([OWN], (), 0) == DialChanges()
