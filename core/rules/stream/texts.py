"""The JSON of errors in answers to publishers."""

from core.errors import ApiError
from core.model.api_errors import detailed
from core.model.row_limits import MAX_SUBJECT


def refusal(error: ApiError, name: bytes) -> bytes:
    """Return the publish ack that reports an error.

    `name` is the stream's name, escaped for JSON.
    """
    return b'{"error":{"code":%d,"err_code":%d,"description":"%s"},"stream":"%s","seq":0}' % (
        error.code,
        error.err_code,
        json_text(error.description),
        name,
    )


def json_text(text: str) -> bytes:
    """Return the content of a JSON string, with the escapes that nats-server uses."""
    out = text.replace("\\", "\\\\").replace('"', '\\"')
    for char, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        out = out.replace(char, escape)
    return "".join(c if c >= " " else f"\\u{ord(c):04x}" for c in out).encode()


def check_subject(subject: bytes) -> None:
    """Raise ApiError JSBadRequest if a subject is longer than storage allows (`MAX_SUBJECT`)."""
    if len(subject) > MAX_SUBJECT:
        raise detailed("JSBadRequest", f"subject longer than {MAX_SUBJECT} bytes")


def survives_failed_commit(answer: bytes, before: int) -> bool:
    """Return whether an answer to a publish is still true after its commit failed.

    A refusal stays true. A duplicate of a message in the same commit does not: only sequences up to
    `before` are committed. The state of a fast batch does not stay true either.
    """
    if not answer or answer.startswith(b'{"error'):
        return True
    if answer.startswith(b'{"type'):
        return False
    return int(answer.rpartition(b'"seq":')[2].partition(b",")[0].rstrip(b"}")) <= before
