"""HTTP handler of NATS requests to services."""

from starlette.responses import Response

from core.units import NANOS_PER_SECOND
from gateway.formats.message_headers import publish_block
from gateway.formats.validation import duration, flag, publish_subject, sequence
from gateway.http.problems import bad_request
from gateway.messages.request_reply import ServiceRequest, many_replies, one_reply
from gateway.requests.call import Call


async def request(call: Call) -> Response:
    """Send the body as a request to a service, and respond with its reply.

    The reply's payload is the body of the response, its headers are `Nats-H-<Name>`. With
    `replies`, several replies follow as NDJSON lines while they arrive.
    """
    query = call.query
    settings = call.gateway.settings
    subject = publish_subject(call.params["subject"], settings)
    within = _seconds(query.get("timeout"), "timeout", settings.request_timeout_default)
    if within > settings.request_timeout_max:
        limit = f"{settings.request_timeout_max:g}s"
        raise bad_request("bad-parameter", f"timeout: more than {limit}")
    many = "replies" in query
    if not many and (only := {"stall", "until_empty"} & query.keys()):
        raise bad_request("bad-parameter", f"{min(only)} needs replies")
    most = sequence(query.get("replies", "1"), "replies")
    if not 0 < most <= settings.replies_max:
        raise bad_request("bad-parameter", f"replies: not 1 to {settings.replies_max}")
    block = publish_block(call.scope["headers"], settings)
    service_request = ServiceRequest(
        subject=subject,
        body=await call.body(call.gateway.client.info.max_payload),
        block=block,
        within=within,
        most=most,
        stall=_seconds(query["stall"], "stall", 0.0) if "stall" in query else None,
        until_empty=flag(query.get("until_empty", "false"), "until_empty"),
    )
    return await (many_replies if many else one_reply)(call, service_request)


def _seconds(text: str | None, what: str, default: float) -> float:
    return default if text is None else duration(text, what) / NANOS_PER_SECOND
