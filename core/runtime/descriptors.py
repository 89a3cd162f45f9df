"""How many files and sockets the process may have open."""

import contextlib

_ENOUGH = 1 << 20  # above it kernels say no, whatever the hard limit


def use_all_descriptors() -> None:
    """Raise the soft limit on descriptors to the hard one, where there is such a limit.

    Shells and service managers begin with 1,024, for programs that call select(); here every
    client is a descriptor. Child processes begin with the raised limit.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return
    with contextlib.suppress(OSError, ValueError):  # macOS states a limit that cannot be had
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
