"""Lookup of the stream that stores a key-value bucket or object store."""

from typing import Any

from core.errors import ApiError
from core.model.api_errors import err_code
from gateway.buckets.stream_configs import Kind
from gateway.http.problems import Problem
from gateway.requests.call import Call

_NO_STREAM = err_code("JSStreamNotFound")


async def existing(call: Call, kind: Kind, bucket: str) -> dict[str, Any]:
    """Return the info of a bucket's stream. Raises Problem 404 if the bucket does not exist."""
    try:
        return await call.gateway.js.call(f"STREAM.INFO.{kind.prefix}{bucket}")
    except ApiError as error:
        raise no_bucket(bucket) if error.err_code == _NO_STREAM else error from None


def no_bucket(bucket: str) -> Problem:
    """Return the 404 for a bucket that does not exist."""
    return Problem(404, "bucket-not-found", f"no bucket {bucket!r}", err_code=_NO_STREAM)
