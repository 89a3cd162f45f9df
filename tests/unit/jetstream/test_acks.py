"""Publish acknowledgements: many at once say what each by itself would."""

# Subject: publish

from hypothesis import given
from hypothesis import strategies as st

from core.jetstream.stream.acks import AckEmitter
from tests.support.sessions import ListSession, idle_hub, listen

REPLIES = st.sampled_from(
    [b"", b"alone", b"_INBOX.b.1", b"_INBOX.a.x.2", b"_INBOX.nobody.1", b"_INBOX.%d.1", b"odd"]
    + [b"_INBOX.a.%d" % i for i in range(20)]
)
RUNS = st.lists(
    st.tuples(REPLIES, st.integers(1, 40)).map(lambda run: [run[0]] * run[1]), max_size=12
)


@given(runs=RUNS, first=st.sampled_from([1, 5, 90, 99_995, 1_000_000]))
def test_acks_reach_their_inboxes_in_order(runs: list[list[bytes]], first: int) -> None:
    hub = idle_hub()
    account = hub.accounts["$G"]
    one, other = ListSession(), ListSession(client_id=2)
    subscriptions = [
        listen(account, one, b"_INBOX.a.*", sid=b"1"),
        listen(account, one, b"_INBOX.a.x.*", sid=b"2"),
        listen(account, one, b"alone", sid=b"3"),
        listen(account, other, b"_INBOX.b.*", sid=b"4"),
        listen(account, other, b"_INBOX.%d.*", sid=b"5"),
    ]
    replies = [reply for run in runs for reply in run]

    AckEmitter(account, hub.loop_tick, b"S").emit(replies, first)

    sids = {b"alone": b"3", b"_INBOX.a.x.2": b"2", b"_INBOX.b.1": b"4", b"_INBOX.%d.1": b"5"}
    expected: dict[bool, list[bytes]] = {True: [], False: []}
    for seq, reply in enumerate(replies, first):
        sid = sids.get(reply, b"1" if reply.startswith(b"_INBOX.a.") else b"")
        if sid:
            body = b'{"stream":"S","seq":%d}' % seq
            line = b"MSG %b %b %d\r\n%b\r\n" % (reply, sid, len(body), body)
            expected[sid in (b"4", b"5")].append(line)
    counted = sum(subscription.delivered for subscription in subscriptions)
    assert one.drain() == b"".join(expected[False])
    assert other.drain() == b"".join(expected[True])
    assert counted == len(expected[False]) + len(expected[True])
