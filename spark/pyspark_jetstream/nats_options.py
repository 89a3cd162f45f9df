"""Parser of the options of NATS connections: servers, credentials, TLS, prefixes, retries."""

from pyspark_jetstream.nats.addresses import parse, shown
from pyspark_jetstream.nats.settings import API_PREFIX, CONNECT_TIMEOUT, Settings, Tls
from pyspark_jetstream.nats.tries import tries_within
from pyspark_jetstream.subjects import is_filter, is_literal
from pyspark_jetstream.values import SET, InvalidOption, Values

NAMES = (
    "servers",
    "auth.token",
    "auth.user",
    "auth.password",
    "auth.nkey",
    "auth.creds",
    "tls.ca",
    "tls.cert",
    "tls.key",
    "tls.keyPassword",
    "tls.verify",
    "tls.first",
    "domain",
    "apiPrefix",
    "inboxPrefix",
    "retries",
)
"""Names of the options of NATS connections."""

_TLS = ("tls.ca", "tls.cert", "tls.key", "tls.keyPassword", "tls.verify", "tls.first")


def nats_settings(values: Values, timeout: float) -> Settings | None:
    """Return the settings of the NATS connection; None if the option `servers` is not set.

    Raises InvalidOption if an option of the connection is invalid, or set without `servers`.

    Args:
        values: The options of the query.
        timeout: Limit of one answer of a server, in seconds.
    """
    servers = values.names_list("servers")
    if not servers:
        for name in NAMES:
            if values.text(name) is not None:
                raise InvalidOption(name, SET, "to be left out where servers is not set")
        return None
    for server in servers:
        try:
            parse(server)
        except ValueError as error:
            raise InvalidOption("servers", shown(server), str(error)) from None
    _check_auth(values)
    retries = values.number("retries", least=0)
    return Settings(
        servers=servers,
        token=values.secret("auth.token"),
        user=values.secret("auth.user"),
        password=values.secret("auth.password"),
        nkey=values.secret("auth.nkey"),
        creds=values.secret("auth.creds"),
        tls=_tls(values),
        api_prefix=_prefix(values),
        inbox_prefix=_subject(values, "inboxPrefix") or "_INBOX",
        connect_timeout=min(CONNECT_TIMEOUT, timeout),
        timeout=timeout,
        retries=tries_within(timeout) if retries is None else retries,
        reconnect_limit=timeout if retries is None else float("inf"),
    )


def _check_auth(values: Values) -> None:
    ways = ("auth.token", "auth.user", "auth.nkey", "auth.creds")
    chosen = [name for name in ways if values.text(name) is not None]
    if len(chosen) > 1:
        expected = f"one way to authenticate; {chosen[0]} is set too"
        raise InvalidOption(chosen[1], SET, expected)
    for name, other in (("auth.password", "auth.user"), ("auth.user", "auth.password")):
        if values.text(name) is None and values.text(other) is not None:
            raise InvalidOption(name, None, "auth.user and auth.password together")


def _tls(values: Values) -> Tls | None:
    if all(values.text(name) is None for name in _TLS):
        return None
    if values.text("tls.key") is not None and values.text("tls.cert") is None:
        raise InvalidOption("tls.key", values.text("tls.key"), "a key that goes with tls.cert")
    return Tls(
        ca=values.text("tls.ca") or "",
        cert=values.text("tls.cert") or "",
        key=values.text("tls.key") or "",
        key_password=values.secret("tls.keyPassword"),
        verify=values.flag("tls.verify", True),
        first=values.flag("tls.first", False),
    )


def _prefix(values: Values) -> str:
    domain, prefix = values.text("domain"), _subject(values, "apiPrefix")
    if domain is not None and prefix is not None:
        raise InvalidOption("apiPrefix", prefix, "either domain or apiPrefix")
    if domain is None:
        return prefix or API_PREFIX
    if "." in domain or not (is_filter(domain) and is_literal(domain)):
        raise InvalidOption("domain", domain, "the name of a domain, one token of a subject")
    return f"$JS.{domain}.API"


def _subject(values: Values, name: str) -> str | None:
    """Return a subject prefix without its final dot; None if the option is empty or not set."""
    text = (values.text(name) or "").removesuffix(".")
    if text and not (is_filter(text) and is_literal(text)):
        raise InvalidOption(name, values.text(name), "a prefix of subjects, without wildcards")
    return text or None
