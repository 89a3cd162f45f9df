"""Check for settings that contradict each other, before anything starts.

The error texts are nats-server's. As in nats-server, a check of the file alone (`-t`) ignores them.
"""

from collections.abc import Iterator

from core.errors import ConfigError, Contradiction
from core.model.gotime import format_duration
from core.units import NANOS_PER_SECOND
from dropin.config.authorization import users_of
from dropin.config.options import ClusterOptions, Options
from dropin.config.websocket import websocket_users


def refuse_contradictions(options: Options) -> None:
    """Raise Contradiction if two settings contradict each other; the text names the first pair."""
    for text in _contradictions(options):
        raise Contradiction(text)
    if options.refusals:
        return  # users may be incomplete because of the refusals
    try:
        users_of(options.authorization, options.no_auth_user)
        websocket_users(options)
    except Contradiction:
        raise
    except ConfigError:
        pass  # the start reports unserved features


def _contradictions(options: Options) -> Iterator[str]:
    if " " in options.server_name:
        yield "server name cannot contain spaces"
    if options.max_payload > options.max_pending:
        yield (
            f"max_payload ({options.max_payload}) cannot be higher than"
            f" max_pending ({options.max_pending})"
        )
    grace, duration = options.lame_duck_grace_period, options.lame_duck_duration
    if grace >= duration:
        yield (
            f"lame duck grace period ({_shown(grace)}) should be strictly lower than"
            f" lame duck duration ({_shown(duration)})"
        )
    if options.cluster != ClusterOptions():
        from dropin.config import cluster  # imported late: starts without a cluster are faster

        yield from cluster.contradictions(options.cluster)
    domain = options.jetstream.domain
    if " " in domain:
        yield f'invalid domain name: derived "$JS.{domain}.API.>" is not a valid subject'
    if any(letter in ".*>" for letter in domain):
        yield "invalid domain name: may not contain ., * or >"
    if options.jetstream.enabled and options.cluster.port:
        names = {"server_name": options.server_name, "cluster.name": options.cluster.name}
        yield from (
            f"jetstream cluster requires `{k}` to be set" for k, v in names.items() if not v
        )


def _shown(seconds: float) -> str:
    return format_duration(round(seconds * NANOS_PER_SECOND))
