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
        └── Fenced                our epoch is old: step down and reload

Failures of a NATS client are in `core/client/errors.py`.

Expected refusals are values in plans, not exceptions. One translator per surface turns these
exceptions into text: the session (-ERR), the API dispatcher (JSON), the gateway (problem
documents).
"""


class CoreError(Exception):
    """The base of all exceptions here; never raised itself."""


class ConfigError(CoreError):
    """A missing or wrong setting."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(key, reason)
        self.key = key
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.key}: {self.reason}"


class Contradiction(ConfigError):
    """Settings that exclude each other. The text is the reference server's and names them."""

    def __init__(self, text: str) -> None:
        super().__init__("", text)

    def __str__(self) -> str:
        return self.reason


class ProtocolError(CoreError):
    """A violation of the wire protocol by the peer.

    `text` is the text between the quotes of the -ERR line. It is empty where the reference server
    closes the connection without -ERR. `reason` is the cause, for the log.
    """

    def __init__(self, text: str = "", reason: str = "") -> None:
        super().__init__(text, reason)
        self.text = text
        self.reason = reason or text

    def __str__(self) -> str:
        return self.reason


class LimitExceeded(ProtocolError):
    """An exceeded limit of the connection."""


class AuthError(CoreError):
    """Wrong credentials of the peer, or a request beyond its permissions."""


class ApiError(CoreError):
    """A JetStream error for clients: HTTP-like code, numbered err_code, description."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(code, err_code, description)
        self.code = code
        self.err_code = err_code
        self.description = description

    def __str__(self) -> str:
        return f"{self.description} ({self.err_code})"


class Unresolved(ApiError):
    """A change that may have been committed; only the new leader of its stream knows the outcome.

    The client gets no answer: an error would mean that nothing was changed.
    """


class StorageError(CoreError):
    """The base of errors of the store."""


class Unavailable(StorageError):
    """A temporary failure: the store is unreachable or refuses for now. Nothing was written."""


class Refused(StorageError):
    """A refusal by the store (disk full, read-only, ...). Nothing was written.

    `is_full` means that the store lacks space or other resources.
    """

    def __init__(self, reason: str, *, is_full: bool = False) -> None:
        super().__init__(reason)
        self.is_full = is_full


class OutcomeUnknown(StorageError):
    """The loss of the connection during a COMMIT, which may or may not have taken effect."""


class Fenced(StorageError):
    """A refusal by the epoch check: another leader has a newer epoch. Nothing was written."""


class OperatorError(CoreError):
    """A condition that stops the server until its operator changes a setting or a system.

    The text is one line that names the setting or object, its value and the expected value.
    """


class Unreachable(OperatorError):
    """The absence of an answer by PostgreSQL, or its report that it starts or stops.

    It may recover by itself.
    """
