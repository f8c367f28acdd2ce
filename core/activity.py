"""Keeps macOS from napping a process that works: App Nap does not spare a child of the window.

Not verified on a Mac. Elsewhere nothing is needed.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# NSActivityOptions of NSProcessInfo.h: user-initiated work, its timers and input and output not to be held back.
_USER_INITIATED = 0x00FFFFFF
_LATENCY_CRITICAL = 0xFF00000000


@contextmanager
def working(reason: str) -> Iterator[None]:
    """Holds an activity assertion for the time of the block; `reason` is shown by the system's tools."""
    if sys.platform != "darwin":
        yield
        return
    process = _send(_class(b"NSProcessInfo"), b"processInfo")
    token = _send(
        process,
        b"beginActivityWithOptions:reason:",
        ctypes.c_uint64(_USER_INITIATED | _LATENCY_CRITICAL),
        ctypes.c_void_p(_send(_class(b"NSString"), b"stringWithUTF8String:", ctypes.c_char_p(reason.encode()))),
    )
    _send(token, b"retain")
    try:
        yield
    finally:
        _send(process, b"endActivity:", ctypes.c_void_p(token))
        _send(token, b"release")


def _objective_c() -> ctypes.CDLL:
    ctypes.CDLL("/System/Library/Frameworks/Foundation.framework/Foundation")
    return ctypes.CDLL("/usr/lib/libobjc.dylib")


def _class(name: bytes) -> int | None:
    get_class = _objective_c().objc_getClass
    get_class.restype = ctypes.c_void_p
    get_class.argtypes = [ctypes.c_char_p]
    found: int | None = get_class(name)
    return found


def _send(
    receiver: int | None, selector: bytes, *arguments: ctypes.c_uint64 | ctypes.c_void_p | ctypes.c_char_p
) -> int | None:
    """Send a message that returns an object or nothing. Its arguments must have the method's own types."""
    library = _objective_c()
    register = library.sel_registerName
    register.restype = ctypes.c_void_p
    register.argtypes = [ctypes.c_char_p]
    # Each call needs the method's own signature: objc_msgSend is no variadic function on arm64.
    prototype = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, *(type(a) for a in arguments))
    message = prototype(("objc_msgSend", library))
    result: int | None = message(receiver, register(selector), *arguments)
    return result
