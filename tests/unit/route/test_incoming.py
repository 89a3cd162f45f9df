"""Messages from other servers while JetStream is still being loaded."""

# Subject: routes

from core.protocol.messages import MessageColumns
from core.pubsub.limits import Limits
from core.pubsub.server import Hub
from core.route.incoming import Incoming
from tests.support.sessions import ListSession, idle_hub, listen


def deliver(incoming: Incoming, payload: bytes) -> None:
    incoming.deliver(b"$G", b"s", b"", (), b"", payload)


def told(hub: Hub) -> ListSession:
    session = ListSession()
    listen(hub.default_account(), session, b"s")
    return session


def test_they_wait_until_publishes_are_taken_and_keep_their_order() -> None:
    hub = idle_hub()
    session, incoming = told(hub), Incoming(hub, holds=True)
    deliver(incoming, b"a")
    assert session.drain() == b"MSG s 1 1\r\na\r\n"
    hub.hold_publishes()
    deliver(incoming, b"b")
    deliver(incoming, b"c")
    incoming.release()
    assert session.drain() == b""
    hub.resume_publishes()
    deliver(incoming, b"d")
    assert session.drain() == b"".join(b"MSG s 1 1\r\n%c\r\n" % c for c in b"bcd")
    incoming.release()
    assert session.drain() == b""


def test_they_are_released_without_another_message() -> None:
    hub = idle_hub()
    session, incoming = told(hub), Incoming(hub, holds=True)
    hub.hold_publishes()
    deliver(incoming, b"a")
    hub.resume_publishes()
    incoming.release()
    assert session.drain() == b"MSG s 1 1\r\na\r\n"


def test_only_so_much_is_kept() -> None:
    hub = idle_hub()
    hub.limits = Limits(max_pending=10)
    session, incoming = told(hub), Incoming(hub, holds=True)
    hub.hold_publishes()
    for payload in (b"a" * 6, b"b" * 6, b"c"):
        deliver(incoming, payload)
    hub.resume_publishes()
    incoming.release()
    assert session.drain() == b"MSG s 1 6\r\naaaaaa\r\n"


def test_an_account_that_is_not_here_gets_nothing() -> None:
    hub = idle_hub()
    session, incoming = told(hub), Incoming(hub, holds=True)
    incoming.deliver(b"OTHER", b"s", b"", (), b"", b"x")
    assert session.drain() == b""


def test_only_requests_to_this_node_itself_are_served_and_no_client_gets_them() -> None:
    hub, taken = idle_hub(), list[tuple[bytes, ...]]()
    account, session = hub.default_account(), ListSession()
    listen(account, session, b">")
    account.node_calls[b"$JS.API."] = lambda *message: taken.append(message)
    request = (b"$JS.API.INFO", b"r", (), b"", b"x")

    incoming = Incoming(hub, holds=False)
    incoming.deliver(b"_JG.$G", *request)
    assert not taken
    incoming.is_of_node = True
    incoming.deliver(b"_JG.$G", b"$JG.API.TXN.BEGIN", b"r", (), b"", b"x")
    assert not taken
    incoming.deliver(b"_JG.$G", *request)
    batch = MessageColumns()
    batch.add(b"$JS.API.LIST", b"q", b"", b"y")
    incoming.deliver_batch(b"_JG.$G", batch)
    assert taken == [(b"$JS.API.INFO", b"r", b"", b"x"), (b"$JS.API.LIST", b"q", b"", b"y")]
    assert session.drain() == b""

    incoming.deliver(b"$G", *request)
    assert len(taken) == 2
