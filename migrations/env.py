"""Alembic's environment: migrates through the connection it is given, in one transaction."""

from alembic import context


def run() -> None:
    """Apply the requested revisions on `config.attributes["connection"]`."""
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
