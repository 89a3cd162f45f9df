"""Removal of chunks of interrupted uploads from an object store.

Every client stores the information of an object after its last chunk. So chunks without information
belong to an upload in progress, or to an interrupted one. The age of the last chunk distinguishes
the two: HTTP uploads that need longer for a chunk are refused (`object_chunk_max`).
"""

from typing import Any

from core.client.subscribe import ordered
from core.errors import ApiError
from core.model.api_errors import err_code
from core.model.consumer import DeliverPolicy
from core.model.gotime import parse_time
from gateway.buckets.lookup import existing
from gateway.buckets.reading import FINITE, batches, end_reading, stored_of
from gateway.buckets.stream_configs import OBJECTS
from gateway.http.problems import RETRY, Problem
from gateway.objects import object_store
from gateway.requests.call import Call

_NO_MESSAGE = err_code("JSNoMessageFound")
_PASSES = 20


async def clean(call: Call, bucket: str, age: int) -> int:
    """Remove the chunks of uploads whose last chunk is older than `age` nanoseconds.

    Returns the number of removed messages. Raises Problem 404 if the store does not exist, 503 if
    objects change too often; ApiError if the server refuses; ClientError if it does not respond.
    """
    before = parse_time((await existing(call, OBJECTS, bucket))["ts"]) - age
    # Subjects first: the information of an object that is stored after this is read below.
    uploads = await _uploads(call, bucket)
    owners = _Owners(call, bucket)
    await owners.read()
    lost: dict[str, int] = {}
    for nuid in uploads - owners.nuids:
        last = await _last_chunk(call, bucket, nuid, before)
        if last:
            lost[nuid] = last
    await owners.read()
    purged = 0
    for nuid, last in lost.items():
        if nuid not in owners.nuids:
            subject = object_store.chunk_subject(bucket, nuid)
            purged += await object_store.purge(call, bucket, subject, last + 1)
    return purged


async def _uploads(call: Call, bucket: str) -> set[str]:
    """Return the ids (nuids) of all uploads that have chunks."""
    prefix = object_store.chunk_subject(bucket, "")
    found: set[str] = set()
    offset = total = 0
    while not offset or offset < total:
        asked = {"subjects_filter": prefix + ">", "offset": offset}
        answer: dict[str, Any] = await call.gateway.js.call(f"STREAM.INFO.OBJ_{bucket}", asked)
        page = answer["state"].get("subjects") or {}
        if not page:
            break
        found.update(subject.removeprefix(prefix) for subject in page)
        offset += len(page)
        total = answer.get("total", 0)
    return {nuid for nuid in found if "." not in nuid}


async def _last_chunk(call: Call, bucket: str, nuid: str, before: int) -> int:
    """Return the sequence of an upload's last chunk; 0 if it is newer than `before` or missing."""
    try:
        last = await call.gateway.js.last(f"OBJ_{bucket}", object_store.chunk_subject(bucket, nuid))
    except ApiError as error:
        if error.err_code != _NO_MESSAGE:
            raise
        return 0
    return last.seq if last.time <= before else 0


class _Owners:
    """The objects of a store, to which chunks may belong.

    Attributes:
        nuids: Chunk ids of each object that existed at any time during `read`.
    """

    def __init__(self, call: Call, bucket: str) -> None:
        self.nuids: set[str] = set()
        self._call = call
        self._bucket = bucket
        self._seen = 0

    async def read(self) -> None:
        """Read all new information messages, in several passes until there are no more.

        A later pass finds an object that was renamed during an earlier one. Raises Problem 503
        after 20 passes, 502 if a message is not valid information.
        """
        for _ in range(_PASSES):
            if not await self._pass():
                return
        raise Problem(
            503, "object-changed", "objects change faster than they are read", headers=RETRY
        )

    async def _pass(self) -> bool:
        wanted = object_store.information(
            self._bucket, DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=self._seen + 1
        )
        reader = await ordered(self._call.gateway.js, wanted, FINITE)
        found = reader.pending > 0  # before a repair replaces the consumer
        try:
            async for messages in batches(reader):
                self._seen = messages[-1].stream_seq
                for info in map(object_store.info_of, map(stored_of, messages)):
                    if info.link is None and not info.deleted:
                        self.nuids.add(info.nuid)
        finally:
            end_reading(reader)
        return found
