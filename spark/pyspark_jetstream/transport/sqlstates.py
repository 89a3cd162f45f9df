"""Classification of PostgreSQL errors as temporary or permanent.

The SQLSTATE decides for the error of a statement (PostgreSQL documentation, appendix A). A failed
connection has only a text, because libpq hides the SQLSTATE. This module recognises texts of the
English server and of libpq; any other text counts as temporary.
"""

import re
from dataclasses import dataclass

PASSING = ("08", "40", "53", "55006", "55P03", "57", "58030")
"""Prefixes of the SQLSTATEs of temporary errors.

They mean connection, conflict with recovery, resources, a lock, operator intervention, input and
output.
"""

PERMANENT = {
    "28000": "the database refuses the role or its way to authenticate (pg_hba.conf)",
    "28P01": "the password of the role is wrong",
    "3D000": "there is no database of this name",
    "3F000": "the database has no schema jetgate: it is not served by jetgate, or is not migrated",
    "42501": "the role lacks this right: docs/sql.md shows how to create a reader",
    "42704": "the database refuses a setting or a name of the connection string",
    "42883": "the schema jetgate is of another version than this package reads",
    "42703": "the schema jetgate is of another version than this package reads",
    "42P01": "the database has no schema jetgate: it is not served by jetgate, or is not migrated",
    "57P04": "the database was dropped",
}
"""SQLSTATEs of permanent errors with explanations. Codes in neither table are permanent too."""

_CONNECTING = (
    ("28P01", r"password authentication failed|no password supplied|empty password"),
    ("28000", r"no pg_hba\.conf entry|pg_hba\.conf rejects|role .* does not exist"),
    ("28000", r"is not permitted to log in|Peer authentication failed|certificate authentication"),
    ("28000", r"authentication method .* not supported|requires? SSL|SCRAM authentication"),
    ("3D000", r"database .* does not exist"),
    ("57P04", r"database .* has been dropped|is being dropped"),
    ("42501", r"permission denied for database"),
    ("42704", r"unrecognized configuration parameter|extra key/value separator"),
    ("42704", r"invalid (?:URI|connection|integer value|port|percent|sslmode)|missing \"=\""),
    ("42704", r"server does not support SSL|definition of service|does not match host name"),
    ("42704", r"certificate verify failed|certificate file|private key file"),
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The classification of a PostgreSQL error.

    Attributes:
        is_permanent: True if a retry fails again.
        code: SQLSTATE of the error; "" if unknown.
        explanation: Explanation for the user; "" if the text of the error suffices.
    """

    is_permanent: bool
    code: str
    explanation: str


def of_statement(code: str) -> Verdict:
    """Classify the error of a statement by its SQLSTATE; "" counts as a broken connection."""
    is_passing = not code or (code.startswith(PASSING) and code not in PERMANENT)
    return Verdict(not is_passing, code, PERMANENT.get(code, ""))


def of_connection(code: str, text: str) -> Verdict:
    """Classify the error of a failed connection by its SQLSTATE, or by its text if that is "".

    If the text names several hosts and one of their errors is unknown, it counts as temporary.
    """
    if code:
        return of_statement(code)
    failures = [one for one in re.split(r"(?=connection to server )", text) if one.strip()]
    found = [_connecting(one) for one in failures if "connection to server" in one] or [
        _connecting(text)
    ]
    if not all(found):
        return Verdict(False, "", "")
    return Verdict(True, found[0], PERMANENT.get(found[0], ""))


def _connecting(text: str) -> str:
    return next((code for code, words in _CONNECTING if re.search(words, text)), "")
