"""The errors that decoders of the TIB formats have in common, and their limit on depth."""

from __future__ import annotations

from wireloom.errors import DecodeError, TruncatedError

__all__ = ["MAX_DEPTH", "check_end", "not_canonical", "short"]

MAX_DEPTH = 64
"""The deepest nesting, whatever the limits: comparing and printing nested fields is recursive."""


def short(what: str, start: int, need: int, end: int) -> TruncatedError:
    """The error for a part of a field that needs bytes up to `need` where there are up to `end`."""
    return TruncatedError(
        f"{what} past the end of the message: {need - start} bytes needed, {end - start} left",
        needed=need - start,
        available=end - start,
        offset=start,
        code="bounds",
    )


def check_end(data: bytes, end: int) -> None:
    """Check that nothing follows the message, as strict mode demands.

    Raises:
        DecodeError: there are bytes after `end`.
    """
    if len(data) > end:
        raise DecodeError(f"{len(data) - end} bytes after the message", offset=end, code="trailing")


def not_canonical(reason: str, offset: int, path: str = "") -> DecodeError:
    """The error of strict mode for something that writers do not write."""
    return DecodeError(f"not canonical: {reason}", offset=offset, path=path, code="not_canonical")
