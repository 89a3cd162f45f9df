"""The same fixtures as elsewhere, over each version of PostgreSQL in turn.

The default suite runs on 18; here are the others. A version that is not here is skipped by name.
"""

from collections.abc import Iterator

import pytest

from core.storage.postgres.preflight import VERSIONS
from tests.support.pg import PostgresServer
from tests.support.pg_versions import find
from tests.support.programs import EXTRA

_REMEDIES = {
    15: "apt-get install postgresql-15",
    16: EXTRA,
    17: EXTRA,
}


_OLDEST, *_BETWEEN, _NEWEST = VERSIONS


@pytest.fixture(
    scope="package",
    params=[_OLDEST, *(pytest.param(one, marks=pytest.mark.thorough) for one in _BETWEEN)],
)
def postgres(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """PostgreSQL of each version but the newest, which all other tests use; durable, as `serve`
    asks."""
    major: int = request.param
    installation = find(major)
    if installation is None:
        pytest.skip(f"PostgreSQL {major} is not here ({_REMEDIES[major]})")
    with PostgresServer(installation=installation, settings={"fsync": "on"}) as server:
        yield server
