"""Keeps the `Nats-Msg-Id` of removed messages when the rows of the messages are deleted.

Within the duplicate window a message with a known id is a duplicate, even after another node has
become the leader or the first message was removed. A stored row contains its id. A statement that
deletes rows keeps the ids of messages within the window in table `removed_ids`. A commit keeps
those of messages that are acknowledged but not written.
"""

from collections.abc import Sequence

_HEADER = "'\\x" + b"\r\nNats-Msg-Id:".hex() + "'::bytea"
_INSERT = """insert into jetgate_store.removed_ids
    (stream, first_seq, last_seq, last_ts, seqs, times, ids)"""


def gone(since: int | None) -> str:
    """Return the RETURNING list for an SQL statement that deletes rows of messages.

    The statement then returns the ids of the rows, which the clause of `keeping` stores. `since` is
    the same as for `keeping`.
    """
    if since is None:
        return "1"
    return (
        f"seq, ts, case when ts > {since} and position({_HEADER} in hdr) > 0 "
        "then jetgate_store.message_id(hdr) end as msg_id"
    )


def keeping(stream: str, since: int | None) -> str:
    """Return an SQL WITH clause that stores the ids of the rows that the clause `gone` has deleted.

    Args:
        stream: The number of the stream, or the parameter that has it.
        since: Ids of messages stored after this time are kept, in nanoseconds since the Unix epoch;
            None: none are, and the text is empty.
    """
    if since is None:
        return ""
    return (
        f", kept as ({_INSERT} select {stream}, min(seq), max(seq), max(ts), array_agg(seq), "
        "array_agg(ts), array_agg(msg_id) from gone where msg_id is not null having count(*) > 0)"
    )


def keep_text(stream: int, ts: int, ids: Sequence[tuple[bytes, int]]) -> str:
    """Return the statement that stores (id, sequence) of messages that are not written as rows.

    `ts` is their time in nanoseconds since the Unix epoch. Empty if there are no ids.
    """
    if not ids:
        return ""
    seqs = [seq for _, seq in ids]
    texts = ",".join(f"'\\x{msg_id.hex()}'" for msg_id, _ in ids)
    return (
        f"{_INSERT} values ({stream}, {min(seqs)}, {max(seqs)}, {ts}, "
        f"'{{{','.join(map(str, seqs))}}}', array_fill({ts}::bigint, array[{len(seqs)}]), "
        f"array[{texts}]::bytea[]);"
    )
