"""Acknowledging a list of tokens."""

import orjson
from starlette.responses import Response

from core.client import Msg
from gateway.call import Call, Gateway
from gateway.fetching import Poll, document, wanted_of
from gateway.models import AckNextRequest
from gateway.problems import Problem
from gateway.responses import json_response
from gateway.tokens import BadToken

Failed = list[dict[str, object]]


async def acknowledge(
    call: Call, stream: str, consumer: str, verb: bytes, tokens: list[str], sync: bool
) -> Response:
    """Send `verb` for each token that is valid here; those that are not are told apart."""
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
    """Send `verb` for each valid token; return those that had no effect. It waits only with `sync`.

    `whose`: stream and consumer that all of them have to be of. Raises Problem and ClientError.
    """
    _bounded(gateway, tokens)
    replies, good, failed = _opened(gateway, whose, tokens)
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
    """Acknowledge every token that is valid here, the last together with a fetch (`+NXT`).

    Without a valid token nothing is fetched.
    """
    tokens = request.tokens
    _bounded(call.gateway, tokens)
    wanted = wanted_of(call, stream, consumer, request)
    replies, _, failed = _opened(call.gateway, (stream, consumer), tokens)
    messages: list[Msg] = []
    if replies:
        wanted.ack = replies.pop()
        if replies:
            await call.gateway.js.ack(replies, [b"+ACK"] * len(replies))
        messages = await Poll(call, wanted).all()
    counts = {"succeeded": len(tokens) - len(failed), "failed": failed}
    return await document(call, messages, orjson.dumps(counts)[:-1] + b",", {})


def _bounded(gateway: Gateway, tokens: list[str]) -> None:
    limit = gateway.settings.ack_tokens_max
    if len(tokens) > limit:
        raise Problem(413, "too-many-tokens", f"tokens: more than {limit}")


def _opened(
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
            problem = Problem(400, "foreign-token", "a delivery of another consumer")
            failed.append(_failure(token, problem))
            continue
        replies.append(reply)
        good.append(token)
    return replies, good, failed


async def _confirmed(
    gateway: Gateway, replies: list[bytes], payloads: list[bytes], tokens: list[str]
) -> Failed:
    answers = await gateway.js.ack_sync(replies, payloads)
    failed: Failed = []
    for i, answer in enumerate(answers.payloads):
        if answer is None:
            problem = Problem(
                504, "not-confirmed", "no confirmation in time; the outcome is unknown"
            )
        elif answers.statuses.get(i) == 403:
            problem = Problem(403, "not-permitted", "this user may not acknowledge")
        elif i in answers.statuses:
            problem = Problem(404, "consumer-not-found", "nobody takes acknowledgements for it")
        else:
            continue
        failed.append(_failure(tokens[i], problem))
    return failed


def _failure(token: str, problem: Problem) -> dict[str, object]:
    return {"token": token, "problem": problem.members()}
