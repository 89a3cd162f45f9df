"""`client_advertise`: the address that clients are told instead of the one we listen on."""

from core.errors import OperatorError


def advertised(text: str) -> tuple[str, int] | None:
    """The host and port that clients are told instead of ours; port 0 is the real one.

    Raises:
        OperatorError: it is no address; the text is the reference server's.
    """
    if not text:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return text.strip("[]"), 0
    try:
        return host.strip("[]"), max(int(port), 0)
    except ValueError:
        reason = f'strconv.Atoi: parsing "{port}": invalid syntax'
        raise OperatorError(
            f"Error setting server INFO with ClientAdvertise value of {text}, err={reason}"
        ) from None
