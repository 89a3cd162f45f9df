"""The exceptions that the core raises on purpose.

    CoreError
    ├── ConfigError             a mistake of the operator; contains the key
    │   └── Contradiction         settings that exclude each other
    ├── OperatorError           the operator must change something before the server can continue
    │   └── Unreachable           PostgreSQL does not answer; it may recover by itself
    ├── ProtocolError           the peer broke the wire protocol: -ERR (if there is a text), close
    │   └── LimitExceeded         payload, control line, connections, protocol level
    ├── AuthError               -ERR 'Authorization Violation'
    ├── ApiError                a numbered JetStream error: code, err_code, description
    │   └── Unresolved            the outcome of a change is unknown: no answer is sent
    └── StorageError
        ├── Unavailable           transient: the caller may try again
        ├── Refused               PostgreSQL refused the statement; another attempt does not help
        ├── OutcomeUnknown        the connection was lost during COMMIT: reload first
        └── Fenced                another leader has a higher epoch: stop leading, and reload

Exceptions of the NATS client are in `core.client.errors`.

Expected refusals of publishes, such as a wrong expected sequence, are values and no exceptions.
Exceptions become text in three places: the client session (-ERR), the API dispatcher (JSON), and
the HTTP gateway (problem documents).
"""


class CoreError(Exception):
    """The base of the exceptions in this module; only subclasses are raised."""


class ConfigError(CoreError):
    """A missing or invalid setting: `key` is its name, `reason` the error."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(key, reason)
        self.key = key
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.key}: {self.reason}"


class Contradiction(ConfigError):
    """Settings that exclude each other. The text is that of nats-server, and names them."""

    def __init__(self, text: str) -> None:
        super().__init__("", text)

    def __str__(self) -> str:
        return self.reason


class ProtocolError(CoreError):
    """A violation of the wire protocol by the peer.

    `text` is sent as the text of the -ERR line; empty: the connection is closed without -ERR, as by
    nats-server. `reason` is the cause, for the log.
    """

    def __init__(self, text: str = "", reason: str = "") -> None:
        super().__init__(text, reason)
        self.text = text
        self.reason = reason or text

    def __str__(self) -> str:
        return self.reason


class LimitExceeded(ProtocolError):
    """A violation of a connection's limit, such as the payload size; the peer gets -ERR."""


class AuthError(CoreError):
    """Wrong credentials of the peer, or a request without the permission for it."""


class ApiError(CoreError):
    """A JetStream API error for clients: HTTP-like code, numbered err_code, description."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(code, err_code, description)
        self.code = code
        self.err_code = err_code
        self.description = description

    def __str__(self) -> str:
        return f"{self.description} ({self.err_code})"


class Unresolved(ApiError):
    """A change whose outcome is unknown: it may be committed, as the stream's next leader will see.

    The client gets no answer: an error would mean that nothing was changed.
    """


class StorageError(CoreError):
    """The base of all errors of storage (PostgreSQL)."""


class Unavailable(StorageError):
    """A temporary failure of storage: unreachable, or it refuses for now. Nothing was written."""


class Refused(StorageError):
    """A refusal by storage, such as a read-only database. Nothing was written.

    A retry does not help. `is_full` is True if the database lacks space or other resources.
    """

    def __init__(self, reason: str, *, is_full: bool = False) -> None:
        super().__init__(reason)
        self.is_full = is_full


class OutcomeUnknown(StorageError):
    """The loss of the connection during a COMMIT: the transaction may or may not be committed."""


class Fenced(StorageError):
    """A write that was refused because another node leads the stream now. Nothing was written.

    Each new leader raises the epoch of the stream, and a write with a lower epoch is refused.
    """


class OperatorError(CoreError):
    """A condition that stops the server until the operator changes a setting or a system.

    The text is one line that names the setting or object, its value and the expected value.
    """


class Unreachable(OperatorError):
    """PostgreSQL does not answer, or reports that it is starting or stopping.

    It may recover without the operator.
    """
