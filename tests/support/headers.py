"""Header blocks of messages, written as keyword arguments."""


def block(**headers: str) -> bytes:
    """Return a header block, or empty bytes without headers.

    An underscore stands for a hyphen: `Nats_Msg_Id="x"` becomes `Nats-Msg-Id: x`.
    """
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode() if lines else b""
