"""JetStream usage and limits of an account, and the response of `$JS.API.INFO`."""

from typing import Annotated

import msgspec

from core.model.response import TYPE_PREFIX, Response
from core.model.wire import INLINE, OMIT, Int, Int64, Uint64


class AccountLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The JetStream limits of an account, in bytes or counts; -1: no limit."""

    max_memory: Int64 = -1
    max_storage: Int64 = -1
    max_streams: Int = -1
    max_consumers: Int = -1
    max_ack_pending: Int = -1
    memory_max_stream_bytes: Int64 = -1
    storage_max_stream_bytes: Int64 = -1
    max_bytes_required: bool = False


class ServerLimits(AccountLimits, frozen=True, kw_only=True):
    """The limits for checks of configurations: those of the account and those of the server.

    The members added here are limits of the server, which account info does not show.
    `duplicate_window` and `batch_timeout` are in nanoseconds. `replicas` is above 1 only in a
    cluster.
    """

    max_request_batch: Int = -1
    duplicate_window: Int64 = -1
    batch_inflight_per_stream: Int64 = -1
    batch_inflight_total: Int64 = -1
    batch_messages: Int64 = -1
    batch_timeout: Int64 = -1
    replicas: Int = 1


class ApiStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of API requests since the server started, and the API level that it serves."""

    level: Int = 0
    total: Uint64 = 0
    errors: Uint64 = 0
    inflight: Annotated[Uint64, OMIT] = 0


class AccountStats(msgspec.Struct, frozen=True, kw_only=True):
    """The JetStream usage of an account (bytes, streams, consumers), and its limits."""

    memory: Uint64 = 0
    storage: Uint64 = 0
    reserved_memory: Uint64 = 0
    reserved_storage: Uint64 = 0
    streams: Int = 0
    consumers: Int = 0
    limits: AccountLimits = AccountLimits()
    domain: Annotated[str, OMIT] = ""
    api: ApiStats = ApiStats()


class AccountInfoResponse(Response, frozen=True, kw_only=True):
    type: str = TYPE_PREFIX + "account_info_response"
    stats: Annotated[AccountStats | None, INLINE] = None
