"""Texts in statements that are sent as one string, without parameters."""


def sql_text(value: str) -> str:
    """Return a text as an SQL expression of hexadecimal digits, which cannot inject SQL."""
    return f"convert_from('\\x{value.encode().hex()}'::bytea,'UTF8')"
