"""The subscriptions that another server of the cluster has announced over its route.

Each is an entry in the account of this server with the same name. A subscription in an account that
this server lacks is kept for monitoring only.
"""

from core.pubsub.account import Account
from core.pubsub.receivers import RemoteInterest, ServerLink
from core.route.view import RouteInterest

Key = tuple[bytes, bytes, bytes]
"""Account, subject, queue group."""


class RemoteSubscriptions:
    """The subscriptions of the server at the other end of one route.

    Attributes:
        are_of_node: True if that server is a node of the same database.
    """

    def __init__(self, link: ServerLink, accounts: dict[str, Account]) -> None:
        self.are_of_node = False
        self._link = link
        self._accounts = {name.encode(): account for name, account in accounts.items()}
        self._known: dict[Key, RemoteInterest] = {}

    def __len__(self) -> int:
        return len(self._known)

    def add(self, account: bytes, subject: bytes, queue: bytes, weight: int) -> None:
        """Apply RS+: add a subscription of the other server, or update the weight of a known
        one.
        """
        key = (account, subject, queue)
        if (known := self._known.get(key)) is not None:
            known.weight = weight
            return
        interest = RemoteInterest(self._link, subject, queue, weight, self.are_of_node)
        self._known[key] = interest
        if (found := self._accounts.get(account)) is not None:
            found.add_remote(interest)

    def remove(self, account: bytes, subject: bytes, queue: bytes) -> None:
        """Apply RS-: remove a subscription. An unknown subscription is ignored."""
        interest = self._known.pop((account, subject, queue), None)
        if interest is not None and (found := self._accounts.get(account)) is not None:
            found.remove_remotes((interest,))

    def clear(self) -> None:
        """Remove all subscriptions of the other server after its route has ended."""
        by_account: dict[bytes, list[RemoteInterest]] = {}
        for key, interest in self._known.items():
            by_account.setdefault(key[0], []).append(interest)
        self._known = {}
        for name, interests in by_account.items():
            if (found := self._accounts.get(name)) is not None:
                found.remove_remotes(interests)

    def shown(self) -> tuple[RouteInterest, ...]:
        """Return all subscriptions of the other server, for /routez."""
        return tuple(
            RouteInterest(
                account=account.decode(errors="replace"),
                subject=subject.decode(errors="replace"),
                queue=queue.decode(errors="replace"),
                weight=interest.weight if queue else 0,
            )
            for (account, subject, queue), interest in self._known.items()
        )
