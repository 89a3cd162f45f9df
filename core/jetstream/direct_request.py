"""The body of a Direct Get request (ADR-31). Unknown members are ignored, as the reference does."""

import msgspec

from core.model.gotime import parse_time


class DirectGetRequest(msgspec.Struct, frozen=True):
    """What to get. `start_time` and `up_to_time` are RFC 3339 texts."""

    seq: int = 0
    last_by_subj: str = ""
    next_by_subj: str = ""
    start_time: str | None = None
    batch: int = 0
    max_bytes: int = 0
    multi_last: tuple[str, ...] | None = None
    up_to_seq: int = 0
    up_to_time: str | None = None
    no_hdr: bool = False

    def refusal(self) -> bytes:
        """Return the status that refuses a request (empty: it is fine)."""
        named = (self.seq, self.last_by_subj, self.next_by_subj, self.start_time, self.multi_last)
        if not any(named):
            return b"408 Empty Request"
        if self.start_time is not None and not _is_time(self.start_time):
            return b"408 Malformed Request"
        timed = self.start_time is not None
        conflicts = (
            self.seq and self.last_by_subj,
            self.seq and timed,
            timed and self.last_by_subj,
            self.last_by_subj and self.next_by_subj,
            self.last_by_subj and self.batch,
            self.last_by_subj and self.multi_last,
            self.next_by_subj and self.multi_last,
            self.up_to_seq and self.up_to_time,
            # Answers of several messages are not served.
            self.batch,
            self.multi_last,
        )
        return b"408 Bad Request" if any(conflicts) else b""


def _is_time(text: str) -> bool:
    try:
        parse_time(text)
    except ValueError:
        return False
    return True
