"""Every exception Wireloom raises, in one tree.

::

    WireloomError
    ├── DecodeError              bytes from the wire cannot be read (reason, offset, path, code)
    │   ├── TruncatedError       more bytes are needed than there are (needed, available)
    │   ├── LimitError           a limit was reached before allocating (what, value, limit)
    │   │   └── FrameTooLargeError
    │   ├── ChecksumError        a check value does not match (expected, actual)
    │   └── InvalidFieldError    a field holds a value the format does not allow
    ├── EncodeError              a message cannot be written (reason, path)
    ├── SourceError              a model, dictionary or schema text is wrong (reason, file, line)
    ├── OptionError              an option is unknown or has a bad value
    ├── UnknownProtocolError     no such format, or none could be detected
    ├── LakeError                a lake of tables is damaged, busy or not one (reason, path)
    ├── StoreError               a service's database cannot be opened, read or written
    ├── StateError               a live session got something its state does not allow
    ├── RefusedError             a peer does not want what it was asked for (code)
    ├── TrustError               a peer is not, or not known to be, who was expected
    └── ConnectionClosed         the peer is gone (sent, received)

"Not enough bytes yet" on a stream is not an error, and neither is an unknown type: framers wait,
codecs keep it. All of them survive pickling, because Spark workers send them to the driver.
"""

from __future__ import annotations

from typing import Any, ClassVar

__all__ = [
    "ChecksumError",
    "ConnectionClosed",
    "DecodeError",
    "EncodeError",
    "FrameTooLargeError",
    "InvalidFieldError",
    "LakeError",
    "LimitError",
    "OptionError",
    "RefusedError",
    "SourceError",
    "StateError",
    "StoreError",
    "TruncatedError",
    "TrustError",
    "UnknownProtocolError",
    "WireloomError",
]


def _rebuild(cls: type[WireloomError], state: dict[str, Any]) -> WireloomError:
    error = cls.__new__(cls)
    error.__dict__.update(state)
    error.args = (state["reason"],)
    return error


class WireloomError(Exception):
    """Base class of every error in this package."""

    reason: str

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions pickle by calling cls(*args), which breaks keyword-only constructors.
        return _rebuild, (type(self), dict(self.__dict__))


def _join(segment: str, path: str) -> str:
    if not path:
        return segment
    return segment + path if path.startswith("[") else f"{segment}.{path}"


class DecodeError(WireloomError):
    """Bytes that cannot be read: why, where in the input, and in which field."""

    default_code: ClassVar[str] = "invalid"

    offset: int
    """Byte offset in the data given to the decoder."""
    path: str
    """The field, from the outside in: ``body.stops[2].label``."""
    code: str
    """Short machine-readable cause, stable across releases."""

    def __init__(self, reason: str, *, offset: int = 0, path: str = "", code: str = "") -> None:
        super().__init__(reason)
        self.offset = offset
        self.path = path
        self.code = code or self.default_code

    def within(self, segment: str) -> None:
        """Put `segment` in front of the path, on the way out of a nested structure."""
        self.path = _join(segment, self.path)

    def shifted(self, by: int) -> None:
        """Add `by` to the offset, when the data was a part of something larger."""
        self.offset += by

    def __str__(self) -> str:
        where = f" in {self.path}" if self.path else ""
        return f"{self.reason} (at byte {self.offset}{where})"


class TruncatedError(DecodeError):
    """The data ends before the structure does."""

    default_code = "truncated"

    needed: int
    """Bytes the structure needs from `offset` on."""
    available: int
    """Bytes that are available from `offset` on."""

    def __init__(
        self,
        reason: str = "",
        *,
        needed: int,
        available: int,
        offset: int = 0,
        path: str = "",
        code: str = "",
    ) -> None:
        reason = reason or f"{needed} bytes needed, {available} available"
        super().__init__(reason, offset=offset, path=path, code=code)
        self.needed = needed
        self.available = available


class LimitError(DecodeError):
    """A configured limit would be exceeded; raised before anything of that size is allocated."""

    default_code = "limit"

    what: str
    value: int
    limit: int

    def __init__(
        self, what: str, value: int, limit: int, *, offset: int = 0, path: str = "", code: str = ""
    ) -> None:
        super().__init__(
            f"{what} {value} is over the limit of {limit}", offset=offset, path=path, code=code
        )
        self.what = what
        self.value = value
        self.limit = limit


class FrameTooLargeError(LimitError):
    """A frame announces more bytes than the limit allows."""

    default_code = "too_large"

    def __init__(
        self, size: int, limit: int, *, offset: int = 0, path: str = "", code: str = ""
    ) -> None:
        super().__init__("frame size", size, limit, offset=offset, path=path, code=code)


class ChecksumError(DecodeError):
    """A check value on the wire differs from the computed one."""

    default_code = "checksum"

    expected: int
    actual: int

    def __init__(self, expected: int, actual: int, *, offset: int = 0, path: str = "") -> None:
        super().__init__(f"expected {expected:#x}, got {actual:#x}", offset=offset, path=path)
        self.expected = expected
        self.actual = actual


class InvalidFieldError(DecodeError):
    """A field holds a value that the format does not allow."""

    default_code = "invalid_field"


class EncodeError(WireloomError):
    """A message that cannot be written: why, and which field."""

    path: str

    def __init__(self, reason: str, *, path: str = "") -> None:
        super().__init__(reason)
        self.path = path

    def within(self, segment: str) -> None:
        """Put `segment` in front of the path, on the way out of a nested structure."""
        self.path = _join(segment, self.path)

    def __str__(self) -> str:
        return f"{self.reason} (in {self.path})" if self.path else self.reason


class SourceError(WireloomError):
    """A model, dictionary or schema text that cannot be parsed: why, which file, which line."""

    file: str
    line: int

    def __init__(self, reason: str, *, file: str = "<text>", line: int = 0) -> None:
        super().__init__(reason)
        self.file = file
        self.line = line

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.reason}"


class OptionError(WireloomError, ValueError):
    """An option that the format does not have, or a value it cannot take."""


class UnknownProtocolError(WireloomError, LookupError):
    """No such format, or the bytes match none with certainty."""


class LakeError(WireloomError):
    """A lake of tables that is damaged, in use by another writer, or no lake: why, and where."""

    path: str

    def __init__(self, reason: str, *, path: str = "") -> None:
        super().__init__(reason)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason


class StoreError(WireloomError):
    """A service's database that cannot be opened, read or written, or that another one uses."""


class StateError(WireloomError):
    """A live session got something that its state does not allow."""


class RefusedError(WireloomError):
    """A peer does not want what it was asked for; `code` is short and stable."""

    code: str

    def __init__(self, reason: str, *, code: str = "refused") -> None:
        super().__init__(reason)
        self.code = code


class TrustError(WireloomError):
    """A peer is not, or not known to be, who was expected; nothing was sent to it."""


class ConnectionClosed(WireloomError):
    """The peer is gone: what was sent and received until then."""

    sent: int
    received: int

    def __init__(
        self, reason: str = "connection closed", *, sent: int = 0, received: int = 0
    ) -> None:
        super().__init__(reason)
        self.sent = sent
        self.received = received
