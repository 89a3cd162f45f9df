"""Acknowledging a list of tokens."""

from starlette.responses import Response

from gateway.call import Call
from gateway.problems import Problem
from gateway.responses import json_response
from gateway.tokens import BadToken

Failed = list[dict[str, object]]


async def acknowledge(
    call: Call, stream: str, consumer: str, verb: bytes, tokens: list[str], sync: bool
) -> Response:
    """Send `verb` for each token that is valid here; those that are not are told apart."""
    limit = call.gateway.settings.ack_tokens_max
    if len(tokens) > limit:
        raise Problem(413, "too-many-tokens", f"tokens: more than {limit}")
    replies, good, failed = _opened(call, stream, consumer, tokens)
    if replies:
        payloads = [verb] * len(replies)
        if sync:
            failed += await _confirmed(call, replies, payloads, good)
        else:
            await call.gateway.js.ack(replies, payloads)
    return json_response({"succeeded": len(tokens) - len(failed), "failed": failed})


def _opened(
    call: Call, stream: str, consumer: str, tokens: list[str]
) -> tuple[list[bytes], list[str], Failed]:
    replies: list[bytes] = []
    good: list[str] = []
    failed: Failed = []
    for token in tokens:
        try:
            reply, delivery = call.gateway.tokens.open(token)
        except BadToken as error:
            failed.append(_failure(token, Problem(400, "bad-token", str(error))))
            continue
        if (delivery.stream, delivery.consumer) != (stream, consumer):
            problem = Problem(400, "foreign-token", "a delivery of another consumer")
            failed.append(_failure(token, problem))
            continue
        replies.append(reply)
        good.append(token)
    return replies, good, failed


async def _confirmed(
    call: Call, replies: list[bytes], payloads: list[bytes], tokens: list[str]
) -> Failed:
    answers = await call.gateway.js.ack_sync(replies, payloads)
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
