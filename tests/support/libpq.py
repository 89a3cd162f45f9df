"""The parser of the installed libpq, as the reference for connection strings."""

import ctypes
import ctypes.util

import pytest


class _Option(ctypes.Structure):
    _fields_ = (
        ("keyword", ctypes.c_char_p),
        ("envvar", ctypes.c_char_p),
        ("compiled", ctypes.c_char_p),
        ("val", ctypes.c_char_p),
        ("label", ctypes.c_char_p),
        ("dispchar", ctypes.c_char_p),
        ("dispsize", ctypes.c_int),
    )


def parsed(text: str) -> dict[str, str] | None:
    """Return the options that libpq parses from a connection string; None if libpq refuses it.

    Skips the test if libpq is not installed.
    """
    library = ctypes.util.find_library("pq")
    if library is None:
        pytest.skip("libpq is not here (apt-get install libpq5)")
    libpq = ctypes.CDLL(library)
    libpq.PQconninfoParse.restype = ctypes.POINTER(_Option)
    libpq.PQconninfoParse.argtypes = (ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p))
    error = ctypes.c_char_p()
    options = libpq.PQconninfoParse(text.encode(), ctypes.byref(error))
    if not options:
        libpq.PQfreemem(error)
        return None
    found = {}
    at = 0
    while options[at].keyword:
        if options[at].val:
            found[options[at].keyword.decode()] = options[at].val.decode()
        at += 1
    libpq.PQconninfoFree(options)
    return found
