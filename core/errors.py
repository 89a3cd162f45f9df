"""Every exception the core raises on purpose.

    CoreError
    ├── ConfigError             the operator's mistake; carries the key
    │   └── Contradiction         settings that do not go together
    ├── OperatorError           the operator must change something before the server can go on
    │   └── Unreachable           PostgreSQL does not answer: that may pass by itself
    ├── ProtocolError           the peer broke the wire protocol: -ERR (if there is a text), close
    │   └── LimitExceeded         payload, control line, connections, protocol level
    ├── AuthError               -ERR 'Authorization Violation'
    ├── ApiError                a numbered JetStream error: code, err_code, description
    │   └── Unresolved            what became of a change is not known: nobody is answered
    └── StorageError
        ├── Unavailable           transient: the caller may try again
        ├── Refused               PostgreSQL refused the statement; trying again will not help
        ├── OutcomeUnknown        the connection was lost during COMMIT: reload before going on
        └── Fenced                our epoch is old: step down and reload

What fails on the side of a client of a server is in `core/client/errors.py`.

Expected refusals are values in plans, not exceptions. One translator per surface turns these
into text: the session (-ERR), the API dispatcher (JSON), the gateway (problem documents).
"""


class CoreError(Exception):
    """The root; never raised itself."""


class ConfigError(CoreError):
    """A setting is missing or wrong."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(key, reason)
        self.key = key
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.key}: {self.reason}"


class Contradiction(ConfigError):
    """Settings that do not go together; the text is the reference server's and names them."""

    def __init__(self, text: str) -> None:
        super().__init__("", text)

    def __str__(self) -> str:
        return self.reason


class ProtocolError(CoreError):
    """The peer broke the wire protocol.

    `text` is what stands between the quotes of the -ERR line. It is empty where the reference
    server closes the connection without a word; `reason` then says what was wrong, for the log.
    """

    def __init__(self, text: str = "", reason: str = "") -> None:
        super().__init__(text, reason)
        self.text = text
        self.reason = reason or text

    def __str__(self) -> str:
        return self.reason


class LimitExceeded(ProtocolError):
    """A limit of the connection was exceeded."""


class AuthError(CoreError):
    """The peer is not who it says, or may not do what it asks."""


class ApiError(CoreError):
    """A JetStream error as clients see it: HTTP-like code, numbered err_code, description."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(code, err_code, description)
        self.code = code
        self.err_code = err_code
        self.description = description

    def __str__(self) -> str:
        return f"{self.description} ({self.err_code})"


class Unresolved(ApiError):
    """A change that may have been committed: another node leads its stream now, and knows.

    A client is not answered: an error would say that nothing was changed.
    """


class StorageError(CoreError):
    """The store did not do what was asked."""


class Unavailable(StorageError):
    """The store cannot be reached or refuses for now; nothing was written."""


class Refused(StorageError):
    """The store understood and refused (disk full, read-only, ...); nothing was written.

    `is_full` says that it lacks room or other resources.
    """

    def __init__(self, reason: str, *, is_full: bool = False) -> None:
        super().__init__(reason)
        self.is_full = is_full


class OutcomeUnknown(StorageError):
    """The connection was lost while a COMMIT was under way: it may or may not have happened."""


class Fenced(StorageError):
    """Another leader has a newer epoch; nothing was written."""


class OperatorError(CoreError):
    """The server cannot start, or go on, until its operator changes something.

    The text is one line that names the thing, its value and what is expected.
    """


class Unreachable(OperatorError):
    """PostgreSQL does not answer, or says that it starts or stops: that may pass by itself."""
