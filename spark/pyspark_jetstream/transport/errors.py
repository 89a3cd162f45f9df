"""Exceptions of reads and writes of streams; every message names the stream and the value."""


class JetStreamError(Exception):
    """Base class of the failures of the format `jetstream`, except invalid options."""


class StreamNotFound(JetStreamError):
    """The stream does not exist, or these credentials may not read it."""

    def __init__(self, stream: str, where: str) -> None:
        super().__init__(
            f"stream {stream!r} was not found {where}: it does not exist, is in another account, "
            "or may not be read with these credentials"
        )


class StreamRecreated(JetStreamError):
    """The stream was deleted and created again after the query recorded its position.

    Args:
        stream: Name of the stream.
        expected: Creation time in the position, in nanoseconds since the epoch.
        found: Creation time of the existing stream, in nanoseconds since the epoch.
    """

    def __init__(self, stream: str, expected: int, found: int) -> None:
        super().__init__(
            f"stream {stream!r} was deleted and created again: the position is one of the stream "
            f"created at {expected} ns, the existing stream was created at {found} ns"
        )
        self.stream, self.expected, self.found = stream, expected, found


class DataLoss(JetStreamError):
    """Messages of the requested range are no longer stored (option `failOnDataLoss`)."""


class NotReachable(JetStreamError):
    """The server or the database did not answer, or lagged behind, for longer than `timeout`."""


class Refused(JetStreamError):
    """The server answered a request to JetStream's API with an error.

    Args:
        code: Status as in HTTP, such as 503.
        err_code: JetStream's error number, such as 10059; 0 if there is none.
        description: The server's text.
    """

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(f"refused by the server: {description} (code {code}, err_code {err_code})")
        self.code, self.err_code, self.description = code, err_code, description


class RefusedBySql(JetStreamError):
    """PostgreSQL answered with a permanent error, such as a wrong password."""


class NotReachedYet(JetStreamError):
    """A position in an option is after the end of the stream.

    Args:
        stream: Name of the stream.
        option: Name of the option.
        seq: The sequence in the option.
        last: The last sequence of the stream.
    """

    def __init__(self, stream: str, option: str, seq: int, last: int) -> None:
        super().__init__(
            f"stream {stream!r}: {option} is sequence {seq}, which is not reached yet: the last "
            f"one is {last}"
        )
