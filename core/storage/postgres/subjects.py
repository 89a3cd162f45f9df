"""Encodes subjects, which are bytes, as the text in the rows of messages.

A blank and two hexadecimal digits encode a byte that is not part of UTF-8, a NUL, a line feed, and
a blank. No subject has a blank, so no two subjects share a text, and a filter matches the text as
it matches the subject: dots and wildcards stay.

The column `subject` is in the unique index of each partition, and an index entry has at most 2,704
bytes. Text of more than 2,048 bytes is in the column `long_subject`; `subject` then holds two
blanks and the SHA-256 of the text, so equal subjects have equal values.
"""

import re
from hashlib import sha256

INDEXED_MAX = 2048
"""Largest text in the indexed column `subject`, in bytes."""
DIGEST_PREFIX = "  "
"""Prefix of a value of column `subject` that is the digest of a long text.

No text begins with it.
"""
WHOLE = "coalesce(long_subject, subject)"
"""SQL expression for a row of a message table: the text of its subject."""
WHOLE_BYTES = (
    f"(octet_length({WHOLE}) - case when position(' ' in {WHOLE}) > 0"
    f" then 2 * (length({WHOLE}) - length(replace({WHOLE}, ' ', ''))) else 0 end)"
)
"""SQL expression for a row of a message table: the length of its subject in bytes."""

# Undecodable bytes are lone surrogates after `surrogateescape`.
_UNTEXTUAL = re.compile("[\0\n \udc80-\udcff]")
_ESCAPE = re.compile(b" ([0-9a-f]{2})")


def columns_of(subjects: list[bytes]) -> tuple[list[str], list[str | None] | None]:
    """Return the values of the columns `subject` and `long_subject` for some subjects.

    A subject is long if its text has more than 2,048 bytes. Its value in the first list is then a
    digest of the text, and its value in the second list the text; the second list has None for
    other subjects. The second list itself is None if no subject is long.
    """
    # The common case takes a few calls for the whole batch.
    if max(map(len, subjects), default=0) <= INDEXED_MAX:
        joined = b"\n".join(subjects)
        if b"\0" not in joined and b" " not in joined:
            try:
                texts = joined.decode().split("\n")
            except UnicodeDecodeError:
                texts = []
            if len(texts) == len(subjects):
                return texts, None
    texts = list(map(text_of, subjects))
    indexed = list(map(indexed_text, texts))
    if indexed == texts:
        return texts, None
    return indexed, [
        None if short == text else text for short, text in zip(indexed, texts, strict=True)
    ]


def text_of(subject: bytes) -> str:
    """Return the text that encodes a subject or a subject filter."""
    text = subject.decode("utf-8", "surrogateescape")
    return _UNTEXTUAL.sub(lambda found: f" {ord(found[0]) & 0xFF:02x}", text)


def bytes_of(text: str) -> bytes:
    """Return the subject that a text encodes."""
    encoded = text.encode()
    return _unescaped(encoded) if b" " in encoded else encoded


def subjects_of(joined: bytes, count: int) -> list[bytes]:
    """Return the subjects that `count` texts encode; the texts are joined by line feeds."""
    names = joined.split(b"\n")
    assert len(names) == count, "no text has a line feed"
    return [_unescaped(name) for name in names] if b" " in joined else names


def indexed_text(text: str) -> str:
    """Return the value of column `subject` for a text: the text, or its digest if long."""
    # A character has at most four bytes.
    if len(text) <= INDEXED_MAX // 4 or len(encoded := text.encode()) <= INDEXED_MAX:
        return text
    return DIGEST_PREFIX + sha256(encoded).hexdigest()


def key_of(subject: bytes) -> str:
    """Return the text by which rows of a subject are found: the value of column `subject`.

    It is the encoded subject, or a digest if that has more than 2,048 bytes.
    """
    return indexed_text(text_of(subject))


def _unescaped(encoded: bytes) -> bytes:
    return _ESCAPE.sub(lambda found: bytes.fromhex(found[1].decode()), encoded)
