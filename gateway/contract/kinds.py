"""The kinds of problems (RFC 9457): HTTP status, description and JetStream error code of each."""

from dataclasses import dataclass

from core.model.api_errors import TABLE
from gateway.http.problems import PREFIX, kind_of, status_of


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of problem: a value of `type` in error responses.

    Attributes:
        statuses: HTTP statuses of the response; the first is the usual one.
        description: The cause, and in short the remedy.
        err_code: JetStream's error code; 0 for problems that the HTTP server
            detects itself, without JetStream.
    """

    statuses: tuple[int, ...]
    description: str
    err_code: int = 0

    @property
    def status(self) -> int:
        """The usual HTTP status."""
        return self.statuses[0]


_OWN: dict[str, tuple[int, str]] = {
    "bad-cloud-event": (400, "The ce-* headers are not those of a CloudEvent 1.0 in binary mode."),
    "bad-duration": (400, "A duration is a number of nanoseconds, or text such as 500ms or 2m."),
    "bad-encoding": (400, "Paths and queries are percent-encoded UTF-8."),
    "bad-forwarded": (400, "Forwarded and X-Forwarded-* do not report one caller address."),
    "bad-header": (400, "A header has an invalid value; `detail` has the value and the rule."),
    "bad-host": (400, "A request must have exactly one Host header."),
    "bad-json": (400, "The body is not the JSON of this operation; `detail` has the place."),
    "bad-key": (400, "Keys have letters, digits, - _ / = and dots between tokens."),
    "bad-line": (400, "A line of a batch is not a message; the other lines are published."),
    "bad-name": (400, "Names have no blanks, line breaks, NUL, or . * > / and \\."),
    "bad-object-info": (
        502,
        "The stored information about the object does not follow ADR-20: see its stream.",
    ),
    "bad-parameter": (
        400,
        "A parameter has an invalid value; `detail` has the value and the rule.",
    ),
    "bad-subject": (400, "Subjects have no blanks, line breaks or empty tokens."),
    "bad-ticket": (401, "The ticket is unknown, used, expired, or of a page of another origin."),
    "bad-token": (400, "An acknowledgement token was not made by a server with this ack key."),
    "body-too-large": (413, "The body is larger than the limit; `detail` has the limit."),
    "bucket-not-found": (404, "There is no such bucket."),
    "consumer-busy": (503, "The consumer does not answer: begin the feed again."),
    "consumer-not-found": (404, "There is no such consumer."),
    "cors-refused": (403, "The origin of the page is not in --http-cors-origin."),
    "cross-site": (403, "A page of another site sent a request with the cookie of this site."),
    "digest-mismatch": (400, "Bytes and digest differ. After an upload: nothing was stored."),
    "direct-not-allowed": (409, "Many messages are read by Direct Get: set allow_direct first."),
    "empty-batch": (400, "A batch has at least one message."),
    "feed-exists": (409, "A feed of that `sid` is open: choose another one."),
    "foreign-token": (400, "An acknowledgement token is of another consumer."),
    "header-not-allowed": (400, "A header may not be sent with this request."),
    "headers-too-large": (431, "The headers exceed a limit of number or size; `detail` has it."),
    "internal": (500, "An internal error. The outcome is unknown: check it before you repeat."),
    "jetstream": (400, "JetStream refused the request with an `err_code` unknown to this façade."),
    "key-not-found": (404, "The key has no value, or not that revision."),
    "method-not-allowed": (405, "The path has other methods: Allow lists them."),
    "no-answer": (504, "The outcome is unknown. Repeat with the same Idempotency-Key."),
    "no-heartbeat": (503, "No heartbeat of the server came during a fetch: fetch again."),
    "no-heartbeats": (503, "No heartbeat of the consumer came in time: begin the feed again."),
    "no-inbox": (403, "The user may not subscribe to an inbox, so no reply can arrive."),
    "no-responders": (503, "No server or service responds on this subject at the moment."),
    "no-stream": (404, "No stream captures the subject: nothing was stored."),
    "no-such-feed": (404, "No feed of that `sid` is open."),
    "no-such-route": (404, "Nothing is at this path."),
    "no-such-subprotocol": (
        400,
        "The sub-protocol is not supported: `detail` lists those that are.",
    ),
    "not-a-dead-letter": (409, "The message has no headers of a dead letter: stream and subject."),
    "not-a-receipt": (502, "A subscriber that is not a stream answered on the subject."),
    "not-confirmed": (504, "The acknowledgements may not be recorded. Repeat them."),
    "not-connected": (503, "The connection to the server was lost; the outcome is unknown."),
    "not-http": (400, "The bytes are not an HTTP/1.1 request; `detail` has the reason."),
    "not-permitted": (403, "The user may not publish to or read this subject."),
    "not-ready": (503, "The server is starting, or cannot store anything."),
    "object-changed": (503, "The object was replaced while it was read: read it again."),
    "object-exists": (409, "There is an object of that name already."),
    "object-is-link": (409, "The object is a link to a bucket, or a link would lead to a link."),
    "object-not-found": (404, "There is no such object."),
    "pinned-to-another": (423, "Another client of the priority group is pinned: try again later."),
    "precondition-failed": (412, "The resource was changed: read it again, then decide."),
    "priority-groups": (409, "A durable feed does not read consumers with priority groups."),
    "pull-refused": (409, "The consumer refused the fetch; `detail` says why."),
    "push-consumer": (409, "A durable feed reads pull consumers, not those that push."),
    "quota-exceeded": (
        429,
        "More requests than the rate limit allows: RateLimit says when it ends.",
    ),
    "range-not-satisfiable": (416, "The object is shorter than where the range begins."),
    "read-refused": (400, "The server refused the read; `detail` says why."),
    "repeated-parameter": (400, "A parameter occurs twice."),
    "reserved-subject": (403, "Subjects that begin with $ and _INBOX are the system's."),
    "server-refused": (503, "The server refused the connection."),
    "session-ended": (
        401,
        "The session, or its credentials, have ended: sign in again.",
    ),
    "slow-body": (408, "The body stopped arriving, or arrived too slowly."),
    "slow-headers": (408, "The request line and headers did not arrive in time."),
    "slow-reader": (503, "The client read the response too slowly: the response ends here."),
    "starting": (503, "This node is starting: try again in a second."),
    "target-too-long": (414, "Path and query are longer than the limit; `detail` has the limit."),
    "too-many-at-once": (503, "The node serves the most requests that it may: try again."),
    "too-many-connections": (503, "The node has the most connections that it may: try again."),
    "too-many-feeds": (429, "More feeds than one connection may have."),
    "too-many-links": (409, "A chain of links is too long."),
    "too-many-requests": (429, "Too many requests at once: wait for the seconds in Retry-After."),
    "too-many-tickets": (429, "This user has too many unused tickets."),
    "too-many-tokens": (413, "One request has more tokens than the limit."),
    "too-many-waiting": (429, "This user has too many open requests."),
    "ttl-not-possible": (400, "The bucket does not allow a lifetime per key."),
    "unauthorized": (401, "Credentials are missing or unknown."),
    "unexpected-body": (400, "The operation has no body."),
    "unknown-parameter": (400, "The operation does not know the parameter; `detail` lists those."),
    "unsubscribed": (409, "The feed was ended before it began."),
    "unsupported-encoding": (415, "Bodies must be sent without compression."),
    "unsupported-media-type": (415, "The operation does not accept this media type."),
    "websocket-needed": (426, "The path accepts only WebSocket handshakes."),
    "wrong-host": (
        421,
        "Host is no name of this server: ask it by its address or by localhost, or have its "
        "operator allow the name by --http-host.",
    ),
}

_ALSO = {
    "digest-mismatch": (502,),
    "jetstream": (404, 409, 412, 500, 503),
    "not-a-receipt": (409,),
    "pull-refused": (400, 412),
    "read-refused": (413,),
    "stream-msg-delete-failed": (404,),
    "stream-store-failed": (413,),
    "unsupported-encoding": (501,),
}
"""HTTP statuses of a kind in addition to the usual one."""

KINDS: dict[str, Kind] = {
    kind: Kind((status, *_ALSO.get(kind, ())), description)
    for kind, (status, description) in _OWN.items()
}
for _row in TABLE.values():
    _kind = kind_of(_row.err_code)
    _statuses = (status_of(_row), *_ALSO.get(_kind, ()))
    KINDS.setdefault(_kind, Kind(_statuses, _row.description, _row.err_code))
"""Every kind, by the last part of its `type` URI."""

EVERYWHERE = (
    "bad-forwarded",
    "bad-host",
    "cors-refused",
    "headers-too-large",
    "not-http",
    "slow-headers",
    "target-too-long",
    "too-many-connections",
    "wrong-host",
)
"""Problems that the response to any request may have."""
WITH_NAME = (
    "bad-encoding",
    "cross-site",
    "internal",
    "jetstream",
    "no-answer",
    "no-inbox",
    "not-connected",
    "not-permitted",
    "quota-exceeded",
    "repeated-parameter",
    "required-api-level",
    "server-refused",
    "session-ended",
    "starting",
    "too-many-at-once",
    "too-many-requests",
    "too-many-waiting",
    "unauthorized",
    "unknown-parameter",
)
"""Further problems of every operation that authenticates its caller (`is_open` is False)."""
OF_WRITES = ("bad-header", "header-not-allowed")
"""Further problems of every method except GET: conditions that the operation cannot apply."""
WITH_BODY = ("body-too-large", "slow-body", "unsupported-encoding")
WITH_JSON = ("bad-json", "unsupported-media-type")


def type_of(kind: str) -> str:
    """Return the `type` URI of a kind of problem."""
    return PREFIX + kind
