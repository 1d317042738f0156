"""The ten packets of NREP, declared once; SPEC §2 and §3 are generated from here.

Every packet starts with the same ten bytes. What follows its known fields inside the content is
kept in `trailing`: readers ignore it, newer peers may put extensions there (SPEC §5).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from wireloom.errors import EncodeError
from wireloom.formats.nrep import certificates
from wireloom.formats.nrep.ids import ID_LEN, app_id
from wireloom.layout import Blob, Items, Packet, Part, Rest, When, Word, packet
from wireloom.messages import Json, Message
from wireloom.outline import Node
from wireloom.wire import Writer

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

__all__ = [
    "FIRST_EXTENSION",
    "HEADER_LEN",
    "PACKETS",
    "Discover",
    "DiscoverInstances",
    "DiscoverReply",
    "Hello",
    "InstanceReply",
    "NrepPacket",
    "OpenSocket",
    "Publish",
    "PublishReply",
    "SocketControl",
    "SocketData",
    "SocketFlags",
    "Unknown",
]

HEADER_LEN = 10
"""Bytes before the content."""

FIRST_EXTENSION = 0x40
"""Types from here on are free for peers that agree on them (SPEC §5)."""


class SocketFlags(IntFlag):
    """The flag byte of a Socket Control; 0x02 and 0x01 are unassigned: sent as 0, ignored."""

    OPEN_ACK = 0x80
    OPEN_REQUEST = 0x40
    ACCEPT = 0x20
    REFUSE = 0x10
    READY = 0x08
    CLOSE = 0x04


_ASSIGNED = 0xFC

_REGULAR_FLAGS = frozenset((0x80, 0x84, 0x40, 0x20, 0x10, 0x08, 0x04))
"""What conforming peers send: one flag, or OPEN_ACK|CLOSE for "no such instance" (SPEC §3.9)."""


def _word(name: str, size: int, doc: str, **whole: Any) -> Word:
    return Word(name, size=size, order="little", doc=doc, **whole)


def _id(name: str, doc: str) -> Blob:
    return Blob(name, ID_LEN, doc=doc)


HEADER: tuple[Part, ...] = (
    _word("reserved", 1, "reserved", const=0),
    _word("type", 1, "packet type", derived="code"),
    _word("nonce", 4, "chosen by the asking side, echoed in the answer"),
    _word("content_size", 4, "bytes after the header", derived="content"),
)
TRAILING = Rest("trailing", doc="unknown extensions, ignored and kept", strict_empty=True)
SOCKET_ID = _id("socket_id", "the virtual socket, named by the entry point")


def _parts(*content: Part) -> tuple[Part, ...]:
    return (*HEADER, *content, TRAILING)


class NrepPacket(Packet):
    """Base of the ten packets."""

    __slots__ = ()

    format: ClassVar[str] = "nrep"
    transport: ClassVar[Literal["tcp", "udp"]] = "tcp"
    """Where it is used; TLS carries the same bytes as plain TCP."""

    nonce: int
    trailing: bytes

    def irregularity(self) -> tuple[str, int, str] | None:
        """Field, offset and reason of what no conforming peer sends; strict readers reject it."""
        return None

    def outline(self) -> Node:
        """Where each field lies in `encode()`, with its meaning."""
        data = self.encode()
        return tree(type(self), data, len(data))


def _nonzero_nonce(nonce: int) -> tuple[str, int, str] | None:
    return ("nonce", 2, f"the nonce must be 0, not {nonce}") if nonce else None


@packet(code=0x01, name="DISCOVER", sender="client", parts=_parts())
class Discover(NrepPacket):
    """Asks all entry points on the network to answer; broadcast to UDP port 2888."""

    transport: ClassVar[Literal["tcp", "udp"]] = "udp"

    nonce: int = 0
    trailing: bytes = b""


@packet(
    code=0x02,
    name="DISCOVER_REPLY",
    sender="server",
    parts=_parts(
        _word("tcp_port", 4, "TCP port to connect to, 1..65535"),
        _word("x509_length", 4, "0: no TLS", derived="len x509"),
        Blob("x509", "x509_length", doc="the entry point's certificate, DER"),
    ),
)
class DiscoverReply(NrepPacket):
    """Says where an entry point listens, and which TLS certificate it will show."""

    transport: ClassVar[Literal["tcp", "udp"]] = "udp"

    nonce: int = 0
    tcp_port: int
    x509: bytes = b""
    trailing: bytes = b""

    @property
    def is_secure(self) -> bool:
        """Whether the entry point speaks TLS. If not, warn before connecting (SPEC E23)."""
        return bool(self.x509)

    @property
    def certificate(self) -> Certificate | None:
        """The parsed certificate; None for an entry point without TLS.

        Raises:
            DecodeError: the bytes are not an X.509 certificate (code ``certificate``).
        """
        return certificates.load(self.x509) if self.x509 else None

    @property
    def fingerprint(self) -> str | None:
        """SHA-256 of the certificate in hex, to pin it; None without TLS. Never raises."""
        return certificates.fingerprint(self.x509) if self.x509 else None

    def irregularity(self) -> tuple[str, int, str] | None:
        """The port must be a TCP port."""
        if 1 <= self.tcp_port <= 0xFFFF:
            return None
        return "tcp_port", HEADER_LEN, f"{self.tcp_port} is no TCP port"


@packet(code=0x03, name="HELLO", sender="server", parts=_parts())
class Hello(NrepPacket):
    """The entry point's first packet: the connection stands, inside TLS where TLS is used."""

    nonce: int = 0
    trailing: bytes = b""

    def irregularity(self) -> tuple[str, int, str] | None:
        """It answers nothing, so its nonce is 0."""
        return _nonzero_nonce(self.nonce)


@packet(
    code=0x04,
    name="PUBLISH",
    sender="client",
    parts=_parts(
        _word("description_length", 4, "in bytes", derived="len description"),
        Blob("description", "description_length", text=True, doc="UTF-8; names the app"),
    ),
)
class Publish(NrepPacket):
    """Offers an app: the sender will accept sockets to it."""

    nonce: int = 0
    description: str
    trailing: bytes = b""

    @property
    def app_id(self) -> bytes:
        """The id that both sides derive from the description."""
        return app_id(self.description)


@packet(
    code=0x05,
    name="PUBLISH_REPLY",
    sender="server",
    parts=_parts(
        _word("success", 1, "1 published; anything else failed"),
        _id("app_id", "zero after a failure"),
        _id("instance_id", "this publication; zero after a failure"),
    ),
)
class PublishReply(NrepPacket):
    """Answers Publish."""

    nonce: int = 0
    success: int
    app_id: bytes
    instance_id: bytes
    trailing: bytes = b""

    @property
    def is_success(self) -> bool:
        """Only 1 means success."""
        return self.success == 1

    def irregularity(self) -> tuple[str, int, str] | None:
        """The success byte is 0 or 1."""
        if self.success in (0, 1):
            return None
        return "success", HEADER_LEN, f"{self.success} is neither 0 nor 1"


@packet(
    code=0x06,
    name="DISCOVER_INSTANCES",
    sender="client",
    parts=_parts(_id("app_id", "first 10 bytes of the SHA-1 of the description")),
)
class DiscoverInstances(NrepPacket):
    """Asks who offers an app."""

    nonce: int = 0
    app_id: bytes
    trailing: bytes = b""


@packet(
    code=0x07,
    name="INSTANCE_REPLY",
    sender="server",
    parts=_parts(
        _word("count", 1, "0: nobody offers it", derived="count instance_ids"),
        Items("instance_ids", ID_LEN, "count", doc="in the order of publication"),
    ),
)
class InstanceReply(NrepPacket):
    """Answers Discover App Instances."""

    nonce: int = 0
    instance_ids: tuple[bytes, ...] = ()
    trailing: bytes = b""


@packet(
    code=0x08,
    name="OPEN_SOCKET",
    sender="client",
    parts=_parts(_id("instance_id", "whom to connect to")),
)
class OpenSocket(NrepPacket):
    """Asks for a virtual socket to an instance."""

    nonce: int = 0
    instance_id: bytes
    trailing: bytes = b""


@packet(
    code=0x09,
    name="SOCKET_CONTROL",
    sender="both",
    parts=_parts(
        SOCKET_ID,
        _word("flags", 1, "what happens to the socket", enum=SocketFlags),
        Blob(
            "instance_id", ID_LEN, when=When("flags", SocketFlags.OPEN_REQUEST), doc="who is called"
        ),
    ),
)
class SocketControl(NrepPacket):
    """Acknowledges, offers, accepts, refuses, readies or closes a virtual socket."""

    nonce: int = 0
    socket_id: bytes
    flags: SocketFlags
    instance_id: bytes | None = None
    """Given exactly when OPEN_REQUEST is set."""
    trailing: bytes = b""

    @property
    def flag_names(self) -> tuple[str, ...]:
        """Names of the set flags, from the highest bit down."""
        return tuple(flag.name or "" for flag in SocketFlags if self.flags & flag)

    @property
    def unknown_bits(self) -> int:
        """The unassigned bits that are set."""
        return self.flags & ~_ASSIGNED

    def irregularity(self) -> tuple[str, int, str] | None:
        """Seven flag bytes have a meaning, and only an acknowledgement echoes a nonce."""
        if self.flags not in _REGULAR_FLAGS:
            return "flags", HEADER_LEN + ID_LEN, f"no peer sends the flags {int(self.flags):#04x}"
        return None if self.flags & SocketFlags.OPEN_ACK else _nonzero_nonce(self.nonce)


@packet(
    code=0x0A,
    name="SOCKET_DATA",
    sender="both",
    parts=_parts(
        SOCKET_ID,
        _word("data_length", 4, "in bytes", derived="len data"),
        Blob("data", "data_length", doc="a piece of the socket's byte stream"),
    ),
)
class SocketData(NrepPacket):
    """Carries bytes of a virtual socket; empty data is legal and does not end the stream."""

    nonce: int = 0
    socket_id: bytes
    data: bytes = b""
    trailing: bytes = b""

    def irregularity(self) -> tuple[str, int, str] | None:
        """Data answers nothing, so its nonce is 0."""
        return _nonzero_nonce(self.nonce)

    def payloads(self) -> Iterator[tuple[str, bytes]]:
        """The data, which may hold a message of another format."""
        if self.data:
            yield "data", self.data


PACKETS: dict[int, type[NrepPacket]] = {
    cls.code: cls
    for cls in (
        Discover,
        DiscoverReply,
        Hello,
        Publish,
        PublishReply,
        DiscoverInstances,
        InstanceReply,
        OpenSocket,
        SocketControl,
        SocketData,
    )
}
"""Packet classes by type code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown(Message):
    """A packet of an extension type (0x40..0xff), kept as it is."""

    format: ClassVar[str] = "nrep"
    name: ClassVar[str] = "UNKNOWN"

    code: int
    nonce: int = 0
    content: bytes = b""

    @property
    def type_name(self) -> str:
        """UNKNOWN, whatever the code."""
        return self.name

    def encode(self) -> bytes:
        """The bytes of the packet.

        Raises:
            EncodeError: a value does not fit, or the code is not an extension's.
        """
        if not isinstance(self.code, int) or not FIRST_EXTENSION <= self.code <= 0xFF:
            raise EncodeError(f"{self.code!r} is no extension type (0x40..0xff)", path="code")
        if not isinstance(self.content, bytes):
            raise EncodeError("expected bytes", path="content")
        out = Writer()
        out.write_u8(0)
        out.write_u8(self.code)
        out.write_u32le(self.nonce)
        out.write_u32le(len(self.content))
        out.write(self.content)
        return out.getvalue()

    def to_dict(self) -> Json:
        """The packet as a JSON object, with its content in hex."""
        return {
            "format": self.format,
            "packet": self.name,
            "code": self.code,
            "nonce": self.nonce,
            "content": self.content.hex(),
        }

    @classmethod
    def from_dict(cls, d: Json) -> Unknown:
        """The packet that `to_dict` described.

        Raises:
            EncodeError: a name is unknown or missing, or its value is not of the right kind.
        """
        values = {key: value for key, value in d.items() if key not in ("format", "packet")}
        try:
            values["content"] = bytes.fromhex(values["content"])
            made = cls(**values)
            made.encode()
        except (KeyError, TypeError, ValueError) as error:
            raise EncodeError(f"not an unknown packet: {error}") from error
        return made

    def outline(self) -> Node:
        """Where each field lies in `encode()`."""
        data = self.encode()
        return tree(None, data, len(data))


def tree(cls: type[NrepPacket] | None, data: bytes, end: int) -> Node:
    """The field tree of ``data[:end]``, read as that packet, or as no known one."""
    root = (cls or Discover).codec.outline(data, 0, end)
    if cls is None:
        root.name, root.meaning = Unknown.name, "Not a type of this protocol"
    for node in root.children:
        if node.name == "type":
            node.meaning = root.name
        elif node.name == "x509" and not node.error:
            node.meaning = certificates.summary(data[node.offset : node.end])
    if cls is None and root.children[-1].name == "trailing":
        root.children[-1].name = "content"
        root.children[-1].meaning = ""
    return root
