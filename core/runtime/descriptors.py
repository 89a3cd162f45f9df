"""The limit on open file descriptors (RLIMIT_NOFILE)."""

import contextlib

_LIMIT_MAX = 1 << 20  # kernels refuse more, whatever the hard limit


def use_all_descriptors() -> None:
    """Raise the soft limit on descriptors to the hard one, where there is such a limit.

    Shells and service managers set it to 1,024, for programs that call select(); here every
    client is a descriptor. Child processes inherit the raised limit.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _LIMIT_MAX if hard == resource.RLIM_INFINITY else min(hard, _LIMIT_MAX)
    if soft == resource.RLIM_INFINITY or soft >= most:
        return
    with contextlib.suppress(OSError, ValueError):  # macOS refuses the hard limit it reports
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
