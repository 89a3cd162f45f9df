"""Header blocks of NATS messages, from keyword arguments."""


def block(**headers: str) -> bytes:
    """Return the header block with these headers; empty bytes if there are none.

    Underscores in names become hyphens: `Nats_Msg_Id="x"` becomes `Nats-Msg-Id: x`.
    """
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"NATS/1.0\r\n{lines}\r\n".encode() if lines else b""
