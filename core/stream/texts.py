"""Errors as the text that publishers get."""

from core.errors import ApiError
from core.model.api_errors import detailed
from core.model.row_limits import MAX_SUBJECT


def refusal(error: ApiError, name: bytes) -> bytes:
    """Return the publish ack that carries an error; `name` is escaped for JSON."""
    return b'{"error":{"code":%d,"err_code":%d,"description":"%s"},"stream":"%s","seq":0}' % (
        error.code,
        error.err_code,
        json_text(error.description),
        name,
    )


def json_text(text: str) -> bytes:
    """Return the inside of a JSON string, escaped as the reference server does it."""
    out = text.replace("\\", "\\\\").replace('"', '\\"')
    for char, escape in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        out = out.replace(char, escape)
    return "".join(c if c >= " " else f"\\u{ord(c):04x}" for c in out).encode()


def check_subject(subject: bytes) -> None:
    """Refuse a subject that is too long to be stored. Raises ApiError JSBadRequest."""
    if len(subject) > MAX_SUBJECT:
        raise detailed("JSBadRequest", f"subject longer than {MAX_SUBJECT} bytes")


def survives_failed_commit(answer: bytes, before: int) -> bool:
    """Whether an answer to a publish is still true when its plan failed to commit.

    What was refused stays refused. The duplicate of a message of the same plan is a duplicate of
    nothing: only up to `before` is there anything. How a fast batch stands says nothing any more.
    """
    if not answer or answer.startswith(b'{"error'):
        return True
    if answer.startswith(b'{"type'):
        return False
    return int(answer.rpartition(b'"seq":')[2].partition(b",")[0].rstrip(b"}")) <= before
