"""The schema on each version: the same columns, and functions and views that say the same."""

import pytest

from tests.integration.test_migrations import (
    COLUMNS,
    migrated,  # noqa: F401  (a fixture)
    on,
    test_a_purged_message_does_not_bring_an_older_one_of_its_subject_back,  # noqa: F401
    test_a_second_migration_has_nothing_to_do,  # noqa: F401
    test_consumers_are_shown_by_the_name_of_their_stream,  # noqa: F401
    test_fence_moves_the_heads_that_are_where_the_writer_left_them,  # noqa: F401
    test_fence_refuses_a_stale_epoch_or_position,  # noqa: F401
    test_payload_is_shown_as_text_exactly_where_it_is_text,  # noqa: F401
    test_subjects_match_as_in_nats,  # noqa: F401
    test_two_nodes_may_migrate_at_once,  # noqa: F401
    test_view_hides_what_an_unfinished_purge_removes,  # noqa: F401
    test_view_hides_what_is_too_old,  # noqa: F401
    test_view_shows_columns_that_people_can_read,  # noqa: F401
    test_view_shows_the_newest_of_each_subject,  # noqa: F401
    test_view_shows_what_the_head_says_is_there,  # noqa: F401
    test_whoever_may_not_create_the_schema_is_told,  # noqa: F401
)
from tests.support.pg import PostgresServer


@pytest.fixture(scope="module")
def columns() -> list[object]:
    """The columns on the version that all other tests use."""
    with PostgresServer() as server:
        return on(server.fresh_database(), COLUMNS)


def test_the_columns_are_the_same(postgres: PostgresServer, columns: list[object]) -> None:
    assert on(postgres.fresh_database(), COLUMNS) == columns != []
