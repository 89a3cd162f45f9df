"""The schema on each version: the same columns, and functions and views that say the same."""

# Subject: schema

import pytest

from tests.integration.test_migrations import (
    COLUMNS,
    migrated,  # noqa: F401  (a fixture)
    test_a_role_that_may_not_create_the_schema_gets_an_error,  # noqa: F401
    test_a_second_migration_has_nothing_to_do,  # noqa: F401
    test_fence_moves_the_heads_that_are_where_the_writer_left_them,  # noqa: F401
    test_fence_refuses_a_stale_epoch_or_position,  # noqa: F401
    test_payload_is_shown_as_text_exactly_where_it_is_text,  # noqa: F401
    test_subjects_match_as_in_nats,  # noqa: F401
    test_two_nodes_may_migrate_at_once,  # noqa: F401
)
from tests.integration.test_sql_plans import (
    loaded,  # noqa: F401  (a fixture)
    test_a_limit_ends_a_page_without_an_end,  # noqa: F401
    test_a_page_reads_its_own_rows,  # noqa: F401
)
from tests.integration.test_sql_readers import (
    test_a_page_has_the_head_and_raw_messages,  # noqa: F401
    test_a_time_is_found_as_the_first_sequence_at_or_after_it,  # noqa: F401
    test_consumers_are_shown_by_the_name_of_their_stream_with_their_lag,  # noqa: F401
    test_view_hides_what_newer_messages_replace,  # noqa: F401
    test_views_and_functions_show_the_messages_of_the_rule,  # noqa: F401
    test_views_show_columns_that_people_can_read,  # noqa: F401
)
from tests.integration.test_sql_roles import (
    streams,  # noqa: F401  (a fixture)
    test_a_condition_is_not_evaluated_on_hidden_rows,  # noqa: F401
    test_a_dropped_reader_is_gone_and_a_role_that_is_there_can_be_given_streams,  # noqa: F401
    test_a_reader_may_do_nothing_else,  # noqa: F401
    test_a_reader_sees_its_streams_alone,  # noqa: F401
    test_a_role_has_limits_on_how_long_it_holds_a_snapshot,  # noqa: F401
)
from tests.support.pg import PostgresServer
from tests.support.sql import on


@pytest.fixture(scope="module")
def columns() -> list[object]:
    """The columns on the version that all other tests use."""
    with PostgresServer() as server:
        return on(server.fresh_database(), COLUMNS)


def test_the_columns_are_the_same(postgres: PostgresServer, columns: list[object]) -> None:
    assert on(postgres.fresh_database(), COLUMNS) == columns != []
