"""Acknowledgement of deliveries over HTTP and WebSocket, by the tokens that came with them.

A token is the signed reply subject of a delivery (`gateway.formats.ack_tokens`).
"""

import asyncio

import orjson
from starlette.responses import Response

from core.client import ClientError, Msg, ReplyBatch
from core.client.subscribe import ack_fields
from core.errors import ApiError
from core.runtime.tasks import spawn, stop
from gateway.consumers.fetch import Fetch, document, fetch_parameters
from gateway.formats.ack_tokens import BadToken
from gateway.formats.models import AckNextRequest
from gateway.http.problems import Problem
from gateway.http.responses import json_response
from gateway.requests.call import Call
from gateway.services import Gateway

Failed = list[dict[str, object]]

_PROMPT_S = 0.2
"""Seconds within which confirmations of acknowledgements usually arrive."""


async def acknowledge(
    call: Call, stream: str, consumer: str, verb: bytes, tokens: list[str], sync: bool
) -> Response:
    """Send `verb` (such as `+ACK`) for each valid token of this consumer.

    Returns the response, with the number of successful tokens and the problem of each other token.
    `sync`: wait for JetStream's confirmations.
    """
    failed = await send_acks(call.gateway, verb, tokens, sync=sync, whose=(stream, consumer))
    return json_response({"succeeded": len(tokens) - len(failed), "failed": failed})


async def send_acks(
    gateway: Gateway,
    verb: bytes,
    tokens: list[str],
    *,
    sync: bool,
    whose: tuple[str, str] | None = None,
) -> Failed:
    """Send `verb` for each valid token, and return the tokens that had no effect, with problems.

    Raises Problem 413 for too many tokens, ClientError if the connection is lost.

    Args:
        gateway: The caller's gateway.
        verb: Payload of the acknowledgement, such as `+ACK`.
        tokens: Tokens of deliveries.
        sync: Wait until JetStream has recorded the acknowledgements.
        whose: If set, the (stream, consumer) that all tokens must belong to.
    """
    _bounded(gateway, tokens)
    replies, good, failed = _open_tokens(gateway, whose, tokens)
    if replies:
        payloads = [verb] * len(replies)
        if sync:
            failed += await _confirmed(gateway, replies, payloads, good)
        else:
            await gateway.js.ack(replies, payloads)
    return failed


async def acknowledge_next(
    call: Call, stream: str, consumer: str, request: AckNextRequest
) -> Response:
    """Acknowledge all valid tokens of this consumer, and fetch the next messages.

    The last token is acknowledged by the pull request itself (`+NXT`). Without a valid token
    nothing is fetched. Raises Problem 413 for too many tokens.
    """
    tokens = request.tokens
    _bounded(call.gateway, tokens)
    wanted = fetch_parameters(call, stream, consumer, request)
    replies, _, failed = _open_tokens(call.gateway, (stream, consumer), tokens)
    messages: list[Msg] = []
    if replies:
        wanted.ack = replies.pop()
        if replies:
            await call.gateway.js.ack(replies, [b"+ACK"] * len(replies))
        messages = await Fetch(call, wanted).all()
    counts = {"succeeded": len(tokens) - len(failed), "failed": failed}
    return await document(call, messages, orjson.dumps(counts)[:-1] + b",", {})


def _bounded(gateway: Gateway, tokens: list[str]) -> None:
    limit = gateway.settings.ack_tokens_max
    if len(tokens) > limit:
        raise Problem(413, "too-many-tokens", f"tokens: {len(tokens)}, at most {limit}")


def _open_tokens(
    gateway: Gateway, whose: tuple[str, str] | None, tokens: list[str]
) -> tuple[list[bytes], list[str], Failed]:
    replies: list[bytes] = []
    good: list[str] = []
    failed: Failed = []
    for token in tokens:
        try:
            reply, named = gateway.tokens.open(token)
        except BadToken as error:
            failed.append(_failure(token, Problem(400, "bad-token", str(error))))
            continue
        if whose is not None and named != whose:
            problem = Problem(
                400, "foreign-token", "the token is of stream {!r} and consumer {!r}".format(*named)
            )
            failed.append(_failure(token, problem))
            continue
        replies.append(reply)
        good.append(token)
    return replies, good, failed


async def _confirmed(
    gateway: Gateway, replies: list[bytes], payloads: list[bytes], tokens: list[str]
) -> Failed:
    answers = await _answered(gateway, replies, payloads)
    failed: Failed = []
    for i, answer in enumerate(answers.payloads):
        if answer is None:
            problem = Problem(
                504, "not-confirmed", "no confirmation in time; the outcome is unknown"
            )
        elif answers.statuses.get(i) == 403:
            problem = Problem(
                403, "not-permitted", "this user may not publish to the ack subject of this message"
            )
        elif i in answers.statuses:
            problem = Problem(
                404,
                "consumer-not-found",
                "no consumer receives this acknowledgement: it was deleted, or has no leader",
            )
        else:
            continue
        failed.append(_failure(tokens[i], problem))
    return failed


async def _answered(gateway: Gateway, replies: list[bytes], payloads: list[bytes]) -> ReplyBatch:
    """Send acknowledgements, and wait up to `api_timeout` for their confirmations (double ack).

    In the result, an empty payload without a status is a confirmation. JetStream does not confirm
    the ack of a message that the consumer has not delivered. After a crash, a server may not know
    its latest deliveries and delivers them again. A client that waits for their confirmation would
    be delayed, so `_are_forgotten` detects this case and ends the wait.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + gateway.settings.api_timeout
    answers = gateway.js.client.request_many(replies, payloads)
    await asyncio.wait([answers.done], timeout=_PROMPT_S)
    if answers.done.done():
        await answers.done  # raises if the connection was lost
        return answers
    asking = spawn(_are_forgotten(gateway, answers), name="acks forgotten")
    try:
        left = until - loop.time()
        await asyncio.wait([answers.done, asking], timeout=left, return_when="FIRST_COMPLETED")
        if asking.done() and asking.result():
            until = loop.time()
        await answers.settled(max(until - loop.time(), 0))
    finally:
        await stop(asking)
    return answers


async def _are_forgotten(gateway: Gateway, answers: ReplyBatch) -> bool:
    """Return True if all unconfirmed acks are of one consumer, and beyond its last delivery."""
    missing = [i for i, answer in enumerate(answers.payloads) if answer is None]
    said = [ack_fields(answers.subjects[i]) for i in missing]
    if len(whose := {(stream, consumer) for stream, consumer, *_ in said}) != 1:
        return False
    [(stream, consumer)] = whose
    js = gateway.js if gateway.server is None else gateway.server.js
    try:
        info = await js.consumer_info(stream.decode(), consumer.decode())
    except (ApiError, ClientError, ValueError):
        return False
    return all(int(each[3]) > info.delivered.stream_seq for each in said)


def _failure(token: str, problem: Problem) -> dict[str, object]:
    return {"token": token, "problem": problem.members()}
