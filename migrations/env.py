"""Alembic's environment: applies revisions over an open connection, in one transaction."""

from alembic import context


def run() -> None:
    """Apply the requested revisions over the connection `config.attributes["connection"]`."""
    connection = context.config.attributes["connection"]
    context.configure(
        connection=connection,
        target_metadata=None,
        version_table="schema_version",
        version_table_schema="jetgate_store",
        transaction_per_migration=False,
    )
    with context.begin_transaction():
        context.run_migrations()


run()
