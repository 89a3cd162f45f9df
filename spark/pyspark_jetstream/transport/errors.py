"""What can go wrong between Spark and a stream; every message names the stream and the value."""


class JetStreamError(Exception):
    """Any failure of the `jetstream` format that is not a mistake in its options."""


class StreamNotFound(JetStreamError):
    """There is no stream of this name that the credentials may see."""

    def __init__(self, stream: str, where: str) -> None:
        super().__init__(
            f"stream {stream!r} was not found {where}: it does not exist, is in another account, "
            "or may not be read with these credentials"
        )


class StreamRecreated(JetStreamError):
    """The stream was deleted and created again since the position was taken.

    Args:
        stream: Its name.
        expected: Creation time that the position names, in nanoseconds since the epoch.
        found: Creation time of the stream that is there.
    """

    def __init__(self, stream: str, expected: int, found: int) -> None:
        super().__init__(
            f"stream {stream!r} was deleted and created again: the position is one of the stream "
            f"created at {expected} ns, the stream that is there was created at {found} ns"
        )
        self.stream, self.expected, self.found = stream, expected, found


class DataLoss(JetStreamError):
    """Messages that were to be read are not stored any more (option `failOnDataLoss`)."""


class NotReachable(JetStreamError):
    """The server, the database or the awaited state did not answer within the time allowed."""


class Refused(JetStreamError):
    """The server answered with an error of its API.

    Args:
        code: As in HTTP, such as 503.
        err_code: JetStream's own number, such as 10059; 0 when there is none.
        description: The server's words.
    """

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(f"refused by the server: {description} (code {code}, err_code {err_code})")
        self.code, self.err_code, self.description = code, err_code, description


class RefusedBySql(JetStreamError):
    """PostgreSQL answered with an error that stays, as a wrong password does."""


class NotReachedYet(JetStreamError):
    """A position that an option names lies behind the end of the stream.

    Args:
        stream: Its name.
        option: The option.
        seq: The sequence that it names.
        last: The last one of the stream.
    """

    def __init__(self, stream: str, option: str, seq: int, last: int) -> None:
        super().__init__(
            f"stream {stream!r}: {option} is sequence {seq}, which is not reached yet: the last "
            f"one is {last}"
        )
