"""Advice for users on each kind of problem; other kinds use the advice for their HTTP status."""

import re

from gateway.contract.kinds import Kind

REMEDIES = {
    "account-resources-exceeded": "Delete or purge streams, or have the account's limits raised.",
    "atomic-publish-disabled": "Set `allow_atomic` in the stream: PATCH it.",
    "bad-cloud-event": "Send ce-id, ce-source, ce-type and ce-specversion: 1.0, or no ce- header.",
    "bad-forwarded": "Configure the proxy to set one of the two headers and to remove the other.",
    "bad-host": "Send one Host header; over HTTP/1.1 it is required.",
    "bad-key": "Use another key, or encode it, for example in base64url.",
    "bad-line": "Set exactly one of `data`, `text` and `data_base64`; publish that line again.",
    "bad-object-info": "Find the message in the store's stream that is not ADR-20 JSON; delete it.",
    "bad-ticket": "Request another ticket: it is valid once, for seconds, and for one origin.",
    "bad-token": "Pass tokens on unchanged. All nodes must have the same ack key.",
    "batch-publish-disabled": "Set `allow_batched` in the stream: PATCH it.",
    "body-too-large": "Send less at once: split it, or store it as an object.",
    "bucket-not-found": "Check the name, or create the bucket with PUT.",
    "consumer-not-found": "Check the name, or create the consumer with PUT. Ephemeral ones expire.",
    "cors-refused": "Have the operator add the page's origin with --http-cors-origin.",
    "cross-site": "Use a bearer token or a ticket, or have the page's origin allowed.",
    "digest-mismatch": "Compute the digest of the bytes that you send, and send them again.",
    "direct-not-allowed": "Set `allow_direct` in the stream: PATCH it.",
    "foreign-token": "Acknowledge each message with the consumer that gave its token.",
    "header-not-allowed": "Remove the header. Send a header of your own as Nats-H-<Name>.",
    "headers-too-large": "Send fewer or shorter headers; put long values into the body.",
    "insufficient-resources": "Wait for the seconds in Retry-After; the log has the cause.",
    "internal": "Check the outcome before you repeat it; the server's log has the cause.",
    "maximum-consumers-limit": "Delete consumers, or raise `max_consumers` of the stream.",
    "maximum-streams-limit": "Delete streams, or have the account's limit raised.",
    "message-incr-disabled": "Set `allow_msg_counter` when the stream is created.",
    "message-schedules-disabled": "Set `allow_msg_schedules` in the stream: PATCH it.",
    "message-ttl-disabled": "Set `allow_msg_ttl` in the stream: PATCH it.",
    "method-not-allowed": "Use one of the methods in Allow.",
    "no-answer": "Repeat it with the same Idempotency-Key, or check the outcome.",
    "no-inbox": "Permit the user to subscribe to its inboxes: `_INBOX.ann.>` for a user `ann`.",
    "no-responders": "Start the service of the subject, or wait for it; check the subject.",
    "no-stream": "Check the subject, or create a stream whose `subjects` match it.",
    "not-a-receipt": "Find the other subscriber of the subject that replies to publishers.",
    "not-connected": "Repeat it with the same Idempotency-Key as soon as the server is back.",
    "not-enabled": "Have the operator start the server with JetStream.",
    "not-http": "Speak HTTP/1.1: one length, lines that end in CR LF, no blank before a colon.",
    "not-permitted": "Give the user the permission in `detail`: docs/http-auth.md lists them.",
    "object-changed": "Try again: another client changed the object.",
    "object-exists": "Choose another name, or delete the object first.",
    "priority-groups": "Fetch with `group`, or follow a consumer without groups.",
    "push-consumer": "Use a pull consumer: one without `deliver_subject`.",
    "repeated-parameter": "Send it once.",
    "required-api-level": "Use a server of that API level, or ask for less.",
    "reserved-subject": "Use another subject; use the routes of the API for JetStream's own.",
    "session-ended": "Sign in again.",
    "slow-reader": "Read faster or less: fewer credits, smaller batches, several connections.",
    "stream-header-exceeds-maximum": "Send fewer or shorter headers.",
    "stream-message-exceeds-maximum": "Send less, or raise `max_msg_size` of the stream.",
    "stream-name-exist": "Choose another name, or change the stream there with PUT or PATCH.",
    "stream-not-found": "Check the name, or create the stream with PUT.",
    "stream-not-match": "Publish to a subject of that stream, or expect the one that has it.",
    "stream-sealed": "Write to another stream or store: a seal cannot be taken back.",
    "stream-store-failed": "Make room (purge, delete, raise limits), or send less; see `detail`.",
    "stream-subject-overlap": "Choose subjects that no other stream has, or change that stream.",
    "target-too-long": "Shorten path and query; put long values into the body.",
    "too-many-tokens": "Acknowledge in several requests.",
    "ttl-not-possible": "Set `limit_marker_ttl` of the bucket and `history` 1; `detail` says more.",
    "unauthorized": "Send Authorization: Basic or Bearer with credentials of a configured user.",
    "unexpected-body": "Send it without a body.",
    "unknown-parameter": "Correct its name, or leave it out.",
    "unsupported-encoding": "Send the body as it is: no Content-Encoding, and at most chunked.",
    "unsupported-media-type": "Name the body's type in Content-Type, in UTF-8.",
    "websocket-needed": "Open it as a WebSocket: `new WebSocket(...)`, version 13.",
    "wrong-host": "Use the address or `localhost`, or have the name allowed with --http-host.",
}
BY_STATUS = {
    400: "Change the request as `detail` says; unchanged, it fails again.",
    401: "Sign in with credentials that the server knows.",
    403: "Give the user the permission for this.",
    404: "Check the name in the path, or create it first.",
    408: "Send it again, faster, or in smaller parts.",
    409: "Read the current state; change it first, or change the request.",
    412: "Read the current state, decide again, and repeat with the new condition.",
    413: "Send less at once.",
    416: "Read the length (HEAD), and ask for a range within it.",
    423: "Wait, or take over with :unpin.",
    429: "Wait for the seconds in Retry-After, then try again with fewer at once.",
    431: "Send fewer or shorter headers.",
    500: "Check the outcome before you repeat it. The server's log has the cause.",
    501: "Send it in a supported way: `detail` lists them.",
    502: "Inspect the stored message: another program wrote it.",
    503: "Wait for the seconds in Retry-After, then try again.",
    504: "Check the outcome, or repeat it with the same Idempotency-Key.",
}
_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def cause_of(kind: Kind) -> str:
    """Return one or two sentences about the cause of a problem."""
    if not kind.err_code:
        return kind.description
    if kind.description == "{err}":
        return "JetStream refused it; `detail` has its words."
    words = _PLACEHOLDER.sub("…", kind.description)
    return f"JetStream refused it: {words}."


def remedy_for(name: str, kind: Kind) -> str:
    """Return the advice for a kind of problem: its own, else that of its HTTP status."""
    return REMEDIES.get(name) or BY_STATUS[kind.status]
