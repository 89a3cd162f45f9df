"""The text form of COPY: pieces of any size become lines, and fields lose their escapes."""

# Subject: storage, backup

from hypothesis import given
from hypothesis import strategies as st

from core.storage.postgres.backup.copy_text import Lines, plain
from core.storage.postgres.backup.sums import ranges

ESCAPES = {
    ord("\\"): "\\\\",
    ord("\b"): "\\b",
    ord("\f"): "\\f",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    ord("\v"): "\\v",
}


@given(st.text("\\\b\f\n\r\t\vbnxN.é"))
def test_a_field_is_what_postgresql_escaped(text: str) -> None:
    assert plain(text.translate(ESCAPES).encode()) == text.encode()


@given(st.lists(st.binary().filter(lambda line: b"\n" not in line)), st.lists(st.integers(1, 9)))
def test_lines_are_the_same_however_they_come(lines: list[bytes], sizes: list[int]) -> None:
    content = b"".join(line + b"\n" for line in lines)
    cutter, found = Lines(), []
    for size in [*sizes, len(content)]:
        found += cutter.split(content[:size])
        content = content[size:]
    assert found == lines


def test_sequences_are_reported_as_ranges() -> None:
    assert ranges([]) == ""
    assert ranges([1, 5, 6, 7, 9]) == "1, 5 to 7, 9"
    assert ranges(range(1, 100, 2)) == "1, 3, 5, 7, 9, 11, 13, 15, 17, 19, ..."
    assert ranges(range(1, 1 << 62)) == "1 to 10000, ..."
