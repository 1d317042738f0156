"""NREP, the Node Router Entry Point protocol: publish apps, find instances, relay sockets.

>>> import wireloom
>>> data = bytes.fromhex("00044433221108000000040000006563686f")
>>> publish = wireloom.decode(data, "nrep")
>>> publish.description, publish.app_id.hex()
('echo', 'b2d21e771d9f86865c5e')
>>> publish.encode() == data
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

from wireloom.columns import Columns
from wireloom.errors import (
    DecodeError,
    EncodeError,
    InvalidFieldError,
    OptionError,
    TruncatedError,
)
from wireloom.format import Format, Option, TypeInfo
from wireloom.formats.nrep.extensions import MAGIC, Extension
from wireloom.formats.nrep.ids import ID_LEN, ZERO_ID, app_id
from wireloom.formats.nrep.packets import (
    FIRST_EXTENSION,
    HEADER_LEN,
    PACKETS,
    Discover,
    DiscoverInstances,
    DiscoverReply,
    Hello,
    InstanceReply,
    NrepPacket,
    OpenSocket,
    Publish,
    PublishReply,
    SocketControl,
    SocketData,
    SocketFlags,
    Unknown,
    tree,
)
from wireloom.formats.nrep.rules import DEFAULT_MAX_CONTENT, LEAST_MAX_CONTENT, Rules
from wireloom.framing import Framer, Scanner
from wireloom.layout import describe
from wireloom.messages import Json
from wireloom.outline import Node
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = [
    "DEFAULT_MAX_CONTENT",
    "DISCOVERY_PORT",
    "FIRST_EXTENSION",
    "FORMAT",
    "HEADER_LEN",
    "ID_LEN",
    "LEAST_MAX_CONTENT",
    "PACKETS",
    "ZERO_ID",
    "Discover",
    "DiscoverInstances",
    "DiscoverReply",
    "Hello",
    "InstanceReply",
    "Nrep",
    "NrepPacket",
    "OpenSocket",
    "Publish",
    "PublishReply",
    "Rules",
    "SocketControl",
    "SocketData",
    "SocketFlags",
    "Unknown",
    "app_id",
]

DISCOVERY_PORT = 2888
"""UDP port on which entry points listen for Discover."""

_CHAIN = 64
"""Frames in a row that settle a detection; reading on would only cost time."""


@dataclass(frozen=True, slots=True)
class _Settings:
    transport: str | None = "tcp"
    extensions: bool = False
    max_content: int = DEFAULT_MAX_CONTENT

    def __post_init__(self) -> None:
        if self.transport not in ("tcp", "udp", None):
            raise OptionError(f"transport must be tcp, udp or None, not {self.transport!r}")
        if not isinstance(self.extensions, bool):
            raise OptionError(f"extensions must be True or False, not {self.extensions!r}")
        size = self.max_content
        if not isinstance(size, int) or not LEAST_MAX_CONTENT <= size <= 0xFFFF_FFFF:
            raise OptionError(
                f"max_content must be a number from {LEAST_MAX_CONTENT} to {0xFFFF_FFFF}, "
                f"not {size!r}"
            )

    def rules(self, limits: Limits) -> Rules:
        return _rules(min(HEADER_LEN + self.max_content, limits.max_frame), self.extensions)


_rules = lru_cache(maxsize=64)(Rules)  # made from limits, which seldom change
_DEFAULT = _Settings()
_EXTENDED = _Settings(extensions=True)
_CLIENT_HELLO = bytes([0, Extension.CLIENT_HELLO])


class Nrep(Format):
    """The NREP format."""

    name = "nrep"
    title = "NREP"
    kind: ClassVar[Literal["transport", "message"]] = "transport"
    rank = 30
    summary = (
        "Node Router Entry Point: apps are published at an entry point found by UDP broadcast, "
        "which relays sockets between its clients over TLS."
    )
    options = (
        Option(
            "transport",
            "what carried the bytes; None if not known. On UDP (or None) bytes after the packet "
            "are ignored in strict mode too",
            ("tcp", "udp"),
            "tcp",
        ),
        Option(
            "extensions", "keep packets of types 0x40..0xff instead of rejecting them", (), False
        ),
        Option("max_content", "largest content in bytes", (), DEFAULT_MAX_CONTENT),
    )

    def load_options(self, given: dict[str, Any]) -> dict[str, Any]:
        """The options as they are.

        Raises:
            OptionError: one has a bad value.
        """
        _Settings(**given)
        return given

    def decode(
        self, data: bytes, *, limits: Limits = DEFAULT_LIMITS, strict: bool = False, **options: Any
    ) -> NrepPacket | Unknown:
        """The packet at the start of `data`; bytes after it are ignored unless `strict`.

        Raises:
            DecodeError: the bytes are not a packet. Codes: ``short_header``, ``reserved``,
                ``type``, ``too_large``, ``truncated``, ``payload_short``, ``inner_length``,
                ``utf8``, and in strict mode ``trailing`` and ``illegal_value``.
            OptionError: an option has a bad value.
        """
        settings = _Settings(**options) if options else _DEFAULT
        if len(data) < HEADER_LEN:
            raise TruncatedError(needed=HEADER_LEN, available=len(data), code="short_header")
        size = settings.rules(limits).measure(data, 0, len(data))
        if size > len(data):
            raise TruncatedError(needed=size, available=len(data))
        if strict and size < len(data) and settings.transport == "tcp":
            left = len(data) - size
            raise InvalidFieldError(f"{left} bytes after the packet", offset=size, code="trailing")
        cls = PACKETS.get(data[1])
        if cls is None:
            nonce = int.from_bytes(data[2:6], "little")
            return Unknown(code=data[1], nonce=nonce, content=data[HEADER_LEN:size])
        message = cls.codec.decode(data, 0, size, strict)
        assert isinstance(message, NrepPacket)
        if strict and (flaw := message.irregularity()) is not None:
            path, offset, reason = flaw
            raise InvalidFieldError(reason, offset=offset, path=path, code="illegal_value")
        return message

    def framer(
        self,
        *,
        limits: Limits = DEFAULT_LIMITS,
        strict: bool = False,
        offset: int = 0,
        **options: Any,
    ) -> Framer:
        """A new framer for one stream whose first byte has that offset.

        Raises:
            OptionError: an option has a bad value.
        """
        return Scanner(self.name, _Settings(**options).rules(limits), limits, offset)

    def detect(self, data: bytes) -> int:
        """95 for packets that account for every byte, 60 for a plausible header, else 0."""
        # A client of this implementation begins with a packet of its own, which is as good a proof.
        is_ours = data[:2] == _CLIENT_HELLO and data[HEADER_LEN : HEADER_LEN + 2] == MAGIC
        rules = (_EXTENDED if is_ours else _DEFAULT).rules(DEFAULT_LIMITS)
        end = len(data)
        pos = count = 0
        while pos < end and count < _CHAIN:
            try:
                stop = pos + rules.measure(data, pos, end)
                is_known = data[pos + 1] < FIRST_EXTENSION
                if stop <= end and is_known and not rules.check(data, pos, stop, None):
                    return 60
            except TruncatedError as error:
                if error.code != "short_header":
                    return 60 if count else 0
                stop = end + 1
            except DecodeError:
                return 60 if count else 0
            if stop > end:
                # Cut off: what came before counts, and lengths that agree, but half a header alone
                # is nothing.
                if count > 1 or rules.agrees(data, pos, end):
                    return 95
                return 60 if count or end >= HEADER_LEN else 0
            pos, count = stop, count + 1
        return 95 if count else 0

    def from_dict(self, d: Json) -> NrepPacket | Unknown:
        """The packet that `to_dict` described.

        Raises:
            EncodeError: the object is not such a packet.
        """
        name = d.get("packet")
        if name == Unknown.name:
            return Unknown.from_dict(d)
        for cls in PACKETS.values():
            if cls.name == name:
                return cls.from_dict(d)
        raise EncodeError(f"nrep has no packet {name!r}", path="packet")

    def outline(
        self, data: bytes, *, limits: Limits = DEFAULT_LIMITS, strict: bool = False, **options: Any
    ) -> Node:
        """The field tree of the packet at the start of `data`, up to where it cannot be read.

        Raises:
            OptionError: an option has a bad value.
        """
        size = HEADER_LEN + int.from_bytes(data[6:10], "little")
        cls = PACKETS.get(data[1]) if len(data) > 1 else None
        root = tree(cls, data, min(size, len(data)))
        try:
            self.decode(data, limits=limits, strict=strict, **options)
        except DecodeError as error:
            blamed = [node for node in root.children if node.name == error.path] or [root]
            if not any(node.error for node in root.children):
                blamed[0].error = error.reason
        return root

    def types(self) -> Sequence[TypeInfo]:
        """The ten packets, from the declarations."""
        return [
            TypeInfo(cls.code, cls.name, (cls.__doc__ or "").split("\n")[0], describe(cls))
            for cls in PACKETS.values()
        ]

    def packets(self) -> Sequence[type[NrepPacket]]:
        """The declared packets."""
        return tuple(PACKETS.values())

    def columns(self) -> Columns:
        """What captures, Arrow and Spark need to know about it."""
        from wireloom.formats.nrep.columns import COLUMNS

        return COLUMNS

    def samples(self) -> Mapping[str, bytes]:
        """A canonical packet of every type and flag form."""
        from wireloom.formats.nrep.samples import SAMPLES

        return SAMPLES


FORMAT = Nrep()
