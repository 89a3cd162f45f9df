"""The handler of `$JS.API.INFO`, the account info of JetStream."""

from msgspec.structs import replace

from core.api.call import ApiServer, Call, Nothing
from core.model.account import AccountInfoResponse, ApiStats
from core.model.release import API_LEVEL


async def info(server: ApiServer, call: Call[Nothing]) -> AccountInfoResponse:
    """Return the usage, limits and API statistics of the account."""
    counters = server.counters
    stats = replace(
        await server.node_queries.usage(),
        limits=server.limits,
        domain=server.domain,
        api=ApiStats(level=API_LEVEL, total=counters.total, errors=counters.errors),
    )
    return AccountInfoResponse(stats=stats)
