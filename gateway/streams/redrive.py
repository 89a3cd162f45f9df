"""Redrive of dead letters: publish their messages to the original streams, then delete them.

A dead letter has headers that name the original stream and subject of its message. The message id
of the new publish is derived from the dead letter. So if the deletion fails, a second redrive
within the duplicate window stores no duplicate. The publish uses the caller's permissions, because
any publisher to the dead-letter stream can forge these headers.
"""

from dataclasses import dataclass, field

from core.client import MessageColumns, NoResponders, ReplyBatch, header_block, header_items
from core.errors import ApiError
from core.model.api_errors import err_code
from core.model.message import MsgGetRequest, StoredMsg
from gateway.formats.validation import publish_subject
from gateway.http.problems import Problem, problem_of
from gateway.messages.batch_lines import failure_of
from gateway.requests.call import Call

_PREFIX = b"Jetgate-Dead-"
_TTL = _PREFIX + b"Kept-Nats-TTL"
_NOT_FOUND = err_code("JSNoMessageFound")


@dataclass(slots=True)
class Redriven:
    """The results of a redrive.

    Attributes:
        count: Number of dead letters that were published and deleted.
        failed: The others, each with its sequence and problem.
        last_seq: Sequence of the last dead letter that was processed; 0: none.
    """

    count: int = 0
    failed: list[dict[str, object]] = field(default_factory=list)
    last_seq: int = 0

    def fail(self, seq: int, problem: Problem) -> None:
        """Record the reason why a dead letter could not be published or deleted."""
        self.failed.append({"seq": seq, "problem": problem.members()})


async def matching(call: Call, dead: str, pattern: str, start: int, limit: int) -> list[StoredMsg]:
    """Return dead letters whose subject matches a pattern, at most `limit`, from sequence `start`
    on.

    Raises ApiError if the server refuses the read, ClientError if the connection fails.
    """
    dead_letters: list[StoredMsg] = []
    while len(dead_letters) < limit:
        request = MsgGetRequest(seq=max(start, 1), next_by_subj=pattern)
        try:
            dead_letter = await call.gateway.js.message(dead, request)
        except ApiError as error:
            if error.err_code != _NOT_FOUND:
                raise
            break
        dead_letters.append(dead_letter)
        start = dead_letter.seq + 1
    return dead_letters


async def by_sequence(call: Call, dead: str, seqs: list[int], into: Redriven) -> list[StoredMsg]:
    """Return the dead letters with these sequences, and record missing ones in `into` as failed.

    Raises ApiError if the server refuses the read for another reason.
    """
    dead_letters: list[StoredMsg] = []
    for seq in seqs:
        try:
            dead_letters.append(await call.gateway.js.message(dead, MsgGetRequest(seq=seq)))
        except ApiError as error:
            if error.err_code != _NOT_FOUND:
                raise
            into.fail(seq, problem_of(error))
    return dead_letters


async def redrive(
    call: Call, dead: str, created: str, dead_letters: list[StoredMsg], into: Redriven
) -> None:
    """Publish the messages of dead letters, and delete each dead letter whose message is stored.

    `dead` is the dead-letter stream and `created` its creation time, which is part of the message
    ids. Results are recorded in `into`.
    """
    batch = MessageColumns()
    sent: list[int] = []
    for dead_letter in dead_letters:
        into.last_seq = dead_letter.seq
        try:
            subject, headers = _message(
                call, dead_letter, f"dead {dead} {created} {dead_letter.seq}"
            )
        except Problem as refusal:
            into.fail(dead_letter.seq, refusal)
            continue
        batch.add(subject, b"", headers, dead_letter.data)
        sent.append(dead_letter.seq)
    if not sent:
        return
    replies = call.gateway.js.start_many(batch)
    await replies.settled(call.gateway.settings.publish_timeout)
    for place, seq in enumerate(sent):
        if (problem := _refusal(replies, place)) is not None:
            into.fail(seq, problem)
            continue
        try:
            await call.gateway.js.call(f"STREAM.MSG.DELETE.{dead}", {"seq": seq, "no_erase": True})
        except (ApiError, NoResponders) as error:
            into.fail(seq, problem_of(error))
        else:
            into.count += 1


def _message(call: Call, dead_letter: StoredMsg, ident: str) -> tuple[bytes, bytes]:
    """Return the subject and headers for the message of a dead letter.

    Raises Problem 409 if the headers of a dead letter are missing, or Problem 400 for an invalid
    subject.
    """
    items = header_items(dead_letter.hdrs)
    about = {name.removeprefix(_PREFIX): value for name, value in items if name[:13] == _PREFIX}
    if not {b"Subject", b"Stream"} <= about.keys() or b"Lacks-Payload" in about:
        raise Problem(
            409,
            "not-a-dead-letter",
            "the message has no headers of a dead letter: it is not from another stream",
        )
    settings = call.gateway.settings
    subject = publish_subject(about[b"Subject"].decode(errors="surrogateescape"), settings)
    own = [item for item in items if not item[0].startswith((_PREFIX, b"Nats-"))]
    own += [(b"Nats-TTL", value) for name, value in items if name == _TTL]
    own += [(b"Nats-Msg-Id", ident.encode()), (b"Nats-Expected-Stream", about[b"Stream"])]
    return subject, header_block(own)


def _refusal(replies: ReplyBatch, place: int) -> Problem | None:
    ack = replies.payloads[place]
    if ack is not None and place not in replies.statuses and ack.startswith(b'{"stream":'):
        return None
    return failure_of(replies, place)
