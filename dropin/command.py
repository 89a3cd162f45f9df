"""The command line of `jetgate-nats-server`: prints, checks, signals, or serves.

    flags -> configuration -> log -> `dropin.process`

Scripts wait for a start, so this module imports as little as possible. An error is one line, `[FTL]
...` in the log or `nats-server: ...` before the log is configured, and exit code 1.
"""

import asyncio
import logging
import os
import signal
import sys

from core.config.grammar import GrammarError
from core.errors import ConfigError, Contradiction, OperatorError
from core.model.release import SERVER_VERSION
from core.runtime.descriptors import use_all_descriptors
from core.runtime.loop import new_loop
from core.runtime.standard_streams import keep_standard_streams, print_line
from dropin import server_log
from dropin.config.contradictions import refuse_contradictions
from dropin.config.files import included, text_of
from dropin.config.flags import USAGE, Flags, WrongFlag, apply, parse_flags
from dropin.config.options import ClusterOptions, Options
from dropin.config.reader import Mistakes, read

log = logging.getLogger(__name__)

NAME = "jetgate-nats-server"
_INTERRUPTED = 128 + signal.SIGINT
_COMMANDS = {"version": "version", "help": "help"}


def main() -> None:
    """Run the command line in `sys.argv`, and exit with its code."""
    keep_standard_streams()
    try:
        sys.exit(_main(sys.argv[1:]))
    except KeyboardInterrupt:  # before there is anything to shut down
        sys.exit(_INTERRUPTED)


def _main(arguments: list[str]) -> int:
    try:
        flags = parse_flags(arguments)
    except WrongFlag as wrong:
        print_line(str(wrong), sys.stderr)
        print_line(USAGE, sys.stdout)
        return 0
    if flags.rest:
        command = flags.rest[0].lower()
        if command not in _COMMANDS:
            return _fail(f'unrecognized command: "{flags.rest[0]}"')
        flags.values[command] = True
    if flags.get("version"):
        print_line(f"nats-server: v{SERVER_VERSION}", sys.stdout)
        return 0
    if flags.get("help") or flags.get("help_tls"):
        print_line(USAGE, sys.stdout)
        return 0
    if order := flags.get("signal"):
        return _signal(order)
    return _serve(flags)


def _fail(text: str) -> int:
    print_line(f"nats-server: {text}", sys.stderr)
    return 1


def _signal(order: str) -> int:
    from dropin.signals import send

    try:
        send(order, executable())
    except OperatorError as error:
        return _fail(str(error))
    return 0


def executable() -> str:
    """Return the file name of this command, which is part of the ports file's name."""
    name = os.path.basename(sys.argv[0])
    return NAME if not name or name.endswith(".py") else name


def _serve(flags: Flags) -> int:
    try:
        if flags.get("test"):
            return check(flags)
        options = load(flags)
        for line in options.oddities:
            print_line(line, sys.stderr)
        refuse_contradictions(options)
        server_log.configure(options)
    except server_log.NoLog as error:
        print_line(str(error), sys.stderr)
        return 1
    except (Contradiction, GrammarError, Mistakes, OperatorError) as error:
        return _fail(str(error))
    from dropin.process import Process  # imported late: only serving needs it

    use_all_descriptors()
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(Process(options, lambda: load(flags), executable()).run())
    except (OperatorError, ConfigError) as error:
        log.log(server_log.FATAL, "%s", error)
        return 1
    except KeyboardInterrupt:
        return 0
    return 0


def check(flags: Flags) -> int:
    """Check the configuration file for the flag `-t`; print the result and return the exit code.

    The code is 0 if the file is valid, 1 if it is invalid or no file is named.

    Raises:
        GrammarError, Mistakes: The file is invalid.
        OperatorError: The file cannot be read.
    """
    path = flags.get("config")
    if not path:
        return _fail("must specify [-c, --config] option to check configuration file syntax")
    from dropin.config.authorization import users_of
    from dropin.config.websocket import websocket_users

    options = load(flags)
    if options.oddities:
        return _fail("\n".join(options.oddities) + "\n")
    try:
        users_of(options.authorization, options.no_auth_user)
        websocket_users(options)
    except Contradiction:
        pass  # `-t` ignores contradictions, only a start reports them
    except ConfigError as error:
        options.refusals.append(str(error))
    if options.refusals:
        return _fail(f"{path}: {options.refusals[0]}")
    print_line(f"nats-server: configuration file {path} is valid ({options.digest})", sys.stderr)
    return 0


def load(flags: Flags) -> Options:
    """Return the options of the configuration file, if there is one, overridden by the flags.

    Raises:
        GrammarError, Mistakes: The file is invalid.
        OperatorError: The file cannot be read, or a flag is invalid.
    """
    options = Options()
    if path := flags.get("config"):
        read(text_of(path), path, options, included, os.environ)
    apply(flags, options)
    options.complete()
    if options.cluster != ClusterOptions():
        # Imported late: starts without a cluster are faster
        from dropin.config.cluster import warnings

        options.warnings += warnings(options.cluster)
    return options
