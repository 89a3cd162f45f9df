"""Tests of the node over storage, run again: what PostgreSQL refuses, leases, locks, deleting."""

# Subject: storage

from tests.integration.test_deleting import *  # noqa: F403
from tests.integration.test_foreign_locks import (  # noqa: F401
    databases,
    dsn,
    hasty,
    roles,
    test_a_lock_queued_behind_a_leader_may_be_granted_after_its_request_was_abandoned,
    test_a_migration_ends_the_transaction_of_a_reader,
    test_a_prepared_transaction_holds_nothing_up_and_is_named,
)
from tests.integration.test_leases import (  # noqa: F401
    test_a_leader_whose_session_ended_leads_on_if_no_other_node_led,
    test_every_head_and_consumer_gets_the_epoch_of_the_new_leader,
    test_the_session_of_a_stalled_leader_is_ended,
)
from tests.integration.test_log import (  # noqa: F401
    test_long_subjects_and_those_that_are_no_text_are_read_as_they_were_written,
)
from tests.integration.test_storage_faults import (  # noqa: F401
    test_a_database_that_becomes_read_only,
    test_a_publish_that_postgresql_refuses_is_refused_and_the_rest_is_kept,
    test_the_writing_session_ends_again_and_again,
)
