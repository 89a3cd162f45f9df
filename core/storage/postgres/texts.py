"""Escapes texts for SQL statements that are sent as one string, without parameters."""


def sql_text(value: str) -> str:
    """Return an SQL expression of a text, in hexadecimal digits, so that it cannot inject SQL."""
    return f"convert_from('\\x{value.encode().hex()}'::bytea,'UTF8')"
