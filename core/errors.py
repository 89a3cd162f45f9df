"""The exceptions of the core."""


class CoreError(Exception):
    """Base of everything the core raises on purpose."""


class ApiError(CoreError):
    """A numbered JetStream error: `code` is HTTP-like, `err_code` is what clients branch on."""

    def __init__(self, code: int, err_code: int, description: str) -> None:
        super().__init__(code, err_code, description)
        self.code = code
        self.err_code = err_code
        self.description = description

    def __str__(self) -> str:
        return f"{self.description} ({self.err_code})"
