"""The Blaze format: packets from bytes, with their bodies when a model is given."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from wireloom.columns import Columns
from wireloom.errors import (
    DecodeError,
    EncodeError,
    FrameTooLargeError,
    InvalidFieldError,
    OptionError,
    TruncatedError,
)
from wireloom.format import Format, Option, TypeInfo
from wireloom.formats.blaze.blz import files_of
from wireloom.formats.blaze.body import decode_below, decode_nclass
from wireloom.formats.blaze.codes import Encoding
from wireloom.formats.blaze.dialects import (
    DIALECTS,
    DOCUMENT,
    Dialect,
    get_dialect,
    rename,
    rename_nodes,
)
from wireloom.formats.blaze.frames import FORMS, RULES, Form, form_at, measure
from wireloom.formats.blaze.model import Model, NClass
from wireloom.formats.blaze.nclass import NClassValue
from wireloom.formats.blaze.packets import (
    PACKETS,
    VERSION,
    BlazePacket,
    SubscriptionEvent,
    TransactionRequest,
    TransactionResponse,
)
from wireloom.formats.blaze.samples import samples
from wireloom.framing import Framer, Scanner
from wireloom.layout import describe
from wireloom.messages import Json
from wireloom.outline import Node
from wireloom.wire import DEFAULT_LIMITS, Limits

__all__ = ["FORMAT", "Blaze", "Subscription", "decode_body"]

Subscription = tuple[NClass | str | int, Encoding | str | int]
"""Class and encoding of a subscription's events."""

_Bodied = TransactionRequest | TransactionResponse | SubscriptionEvent
"""The packets that may have a body."""

_WORD_LEN = 4

_CHAIN = 64
"""Frames in a row that settle a detection; reading on would only cost time."""

_MAX_MODELS = 16
"""Number of model files that are kept in memory."""

_BY_NAME = {cls.name: cls for cls in PACKETS.values()}
_models: dict[str, tuple[Model, tuple[tuple[Path, int, int], ...]]] = {}


@dataclass(frozen=True, slots=True)
class _Settings:
    model: Model | None = None
    dialect: Dialect = DIALECTS[DOCUMENT]
    subscriptions: Mapping[int, Any] | None = None

    def encoding(self, given: Encoding | str | int) -> Encoding | None:
        """The encoding that a name, member or number means in this dialect."""
        if isinstance(given, IntEnum):
            given = given.name
        if isinstance(given, int):
            return self.dialect.encoding(given)
        return Encoding.__members__.get(given)


_DEFAULTS = _Settings()


def _settings(options: Mapping[str, Any]) -> _Settings:
    if not options:
        return _DEFAULTS
    return _Settings(
        _load(options.get("model")),
        get_dialect(options.get("dialect", DOCUMENT)),
        _subscriptions(options.get("subscriptions")),
    )


def _load(model: object) -> Model | None:
    """A model as given, or from a file, which is read again only if it or an include changes."""
    if model is None or isinstance(model, Model):
        return model
    if not isinstance(model, (str, os.PathLike)):
        raise OptionError(f"model must be a Model or the path of a .blz file, not {model!r}")
    name = os.fspath(model)
    known = _models.get(name)
    if known is not None and all(_stamp(file[0]) == file for file in known[1]):
        return known[0]
    found, files = files_of(name)
    while len(_models) >= _MAX_MODELS:
        del _models[next(iter(_models))]
    _models[name] = found, tuple(_stamp(file) for file in files)
    return found


def _stamp(file: Path) -> tuple[Path, int, int]:
    try:
        status = file.stat()
    except OSError:
        return file, -1, -1
    return file, status.st_mtime_ns, status.st_size


def _subscriptions(given: object) -> Mapping[int, Any] | None:
    if given is None or isinstance(given, Mapping):
        return given
    if isinstance(given, str):
        return _subscriptions_in(given)
    if isinstance(given, tuple):
        return _subscriptions_in(",".join(given))
    raise OptionError(f"subscriptions must be a mapping or a text, not {given!r}")


@lru_cache(maxsize=64)
def _subscriptions_in(text: str) -> Mapping[int, Subscription]:
    """From ``3=TRUCK,4=POINT/INDEXDELTA``."""
    found: dict[int, Subscription] = {}
    for item in filter(None, text.replace(" ", "").split(",")):
        number, _, rest = item.partition("=")
        nclass, _, encoding = rest.partition("/")
        if not number.isdecimal() or not nclass:
            raise OptionError(f"a subscription is ID=CLASS or ID=CLASS/ENCODING, not {item!r}")
        key = int(nclass) if nclass.isdecimal() else nclass
        found[int(number)] = key, encoding or Encoding.INDEXNOTZERO
    return found


def _subscribed(packet: SubscriptionEvent, model: Model, settings: _Settings) -> Any:
    """Class and encoding of an event's body; None if the subscription is not known."""
    given: Any = (settings.subscriptions or {}).get(packet.sbsrid)
    if given is None:
        return None
    is_pair = isinstance(given, (tuple, list)) and len(given) == 2
    key, kind = given if is_pair else (given, Encoding.INDEXNOTZERO)
    nclass = model.nclass(key) if isinstance(key, (NClass, str, int)) else None
    if nclass is None:
        raise OptionError(f"the model has no class {key!r}")
    encoding = settings.encoding(kind)
    if encoding is None:
        raise OptionError(f"dialect {settings.dialect.name} has no encoding {kind!r}")
    return nclass, encoding


def _class_of(packet: _Bodied, form: Form, model: Model, settings: _Settings) -> Any:
    """Class and encoding of a packet's body; None if they are not known."""
    if isinstance(packet, SubscriptionEvent):
        # A STOP in the long form has an empty body, which is not an object.
        return _subscribed(packet, model, settings) if packet.sevttp in (1, 2) else None
    number, enctyp = packet.nclsid, packet.enctyp
    nclass = None if number is None else model.nclass(number)
    encoding = None if enctyp is None else settings.dialect.encoding(enctyp)
    at = form.fields["nclsid"][0]
    if nclass is None:
        reason = f"the model has no class {number}"
        raise InvalidFieldError(reason, offset=at, path="nclsid", code="nclsid")
    if encoding is None:
        reason = f"{enctyp} is not a known encoding"
        raise InvalidFieldError(reason, offset=at, path="enctyp", code="enctyp")
    return nclass, encoding


def _read_body(
    packet: BlazePacket, form: Form, settings: _Settings, limits: Limits, strict: bool, root: Any
) -> NClassValue | None:
    """The object in the body; None if there is none or its class is not known."""
    model = settings.model
    if model is None or not isinstance(packet, _Bodied) or packet.body is None:
        return None
    found = _class_of(packet, form, model, settings)
    if found is None:
        return None
    nclass, encoding = found
    body = packet.body
    first = settings.dialect.first_index_of(model)
    options: Any = {"first_index": first, "limits": limits, "strict": strict}
    try:
        if root is None:
            return decode_nclass(model, nclass, body, encoding, **options)
        return decode_below(root, model, nclass, body, encoding, **options)
    except DecodeError as error:
        error.within("body")
        error.shifted(form.header_len)
        raise


def decode_body(
    packet: BlazePacket,
    model: Model | str | os.PathLike[str],
    *,
    subscriptions: Mapping[int, Subscription] | str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    strict: bool = False,
) -> NClassValue | None:
    """The object in a packet's body; None if it has no body, or its subscription is not known.

    Args:
        packet: the packet, in the dialect that it was decoded in.
        model: declares the class.
        subscriptions: SBSRID → class and encoding, for events.
        limits: depth and number of fields.
        strict: reject what a writer would not send.

    Raises:
        DecodeError: the class is not in the model, or the body is not an object of it.
        OptionError: a subscription names what the model or the dialect does not have.
    """
    settings = _Settings(_load(model), get_dialect(packet.dialect), _subscriptions(subscriptions))
    words = max(packet.codec.forms)  # the form that has a body
    return _read_body(packet, FORMS[words << 6 | packet.code], settings, limits, strict, None)


def _read_packet(
    data: bytes, form: Form, size: int, settings: _Settings, strict: bool
) -> BlazePacket:
    packet = form.codec.decode(data, 0, size, strict, form.words)
    assert isinstance(packet, BlazePacket)
    if strict:
        if (flaw := packet.strict_flaw()) is not None:
            raise InvalidFieldError(flaw[1], path=flaw[0])
        if size < len(data):
            raise DecodeError(
                f"{len(data) - size} bytes behind the packet", offset=size, code="trailing"
            )
    return packet if settings.dialect.name == DOCUMENT else rename(packet, settings.dialect)


class Blaze(Format):
    """The Blaze format."""

    name = "blaze"
    title = "Blaze"
    kind: ClassVar[Literal["transport", "message"]] = "transport"
    rank = 10
    summary = (
        "Transactions and subscriptions on objects of a model's classes, over TCP: 13 packets, "
        "bodies that leave zeros or unchanged fields out."
    )
    options = (
        Option("model", "classes of the bodies: a .blz file, or a Model", type="file"),
        Option("dialect", "whose numbering is spoken", tuple(DIALECTS), DOCUMENT),
        Option(
            "subscriptions",
            "class and encoding of events by SBSRID, such as 3=TRUCK,4=POINT/INDEXDELTA",
            type="list",
        ),
    )

    def load_options(self, given: dict[str, Any]) -> dict[str, Any]:
        """The options with the model that they name.

        Raises:
            OptionError: one has a bad value.
            SourceError: the model file is wrong.
        """
        if "model" in given:
            given["model"] = _load(given["model"])
        if "subscriptions" in given:
            given["subscriptions"] = _subscriptions(given["subscriptions"])
        return given

    def decode(
        self, data: bytes, *, limits: Limits = DEFAULT_LIMITS, strict: bool = False, **options: Any
    ) -> BlazePacket:
        """The packet at the start of `data`; bytes after it are ignored unless `strict`.

        Raises:
            DecodeError: the bytes are not a packet, or with a model, the body is not an object.
        """
        settings = _settings(options)
        end = len(data)
        form = form_at(data, 0, end)
        size = measure(data, 0, end) if form.pktlen_at else form.header_len
        if size > limits.max_frame:
            at = form.pktlen_at
            raise FrameTooLargeError(size, limits.max_frame, offset=at, path="pktlen")
        if size > end:
            raise TruncatedError(needed=size, available=end)
        packet = _read_packet(data, form, size, settings, strict)
        if settings.model is not None:
            value = _read_body(packet, form, settings, limits, strict, None)
            # It was made here, and nothing else refers to it yet.
            object.__setattr__(packet, "nclass", value)
        return packet

    def framer(
        self,
        *,
        limits: Limits = DEFAULT_LIMITS,
        strict: bool = False,
        offset: int = 0,
        **options: Any,
    ) -> Framer:
        """A new framer for one direction of a recorded stream; options do not change framing.

        It may hold a packet back until the next header is there. For a live connection see
        `wireloom.framing.Splitter`.
        """
        return Scanner(self.name, RULES, limits, offset)

    def detect(self, data: bytes) -> int:
        """How sure it is that `data` starts with a Blaze packet.

        95: legal packets up to the very end, or very many. 90: several, and the last one is cut, or
        one whose lengths agree.
        60: at least the first header is legal. Only version 1 without unused bits is taken.
        Less than the first word says nothing.
        """
        if len(data) < _WORD_LEN:
            return 0
        pos = count = 0
        is_exact = True
        while pos < len(data) and count < _CHAIN:
            size = _legal_size(data, pos)
            if size is None:
                return 60 if count else 0
            if size > len(data) - pos:
                is_proven = is_exact and (count > 1 or _agrees(data, pos, size))
                return 90 if is_proven else 60
            is_exact = is_exact and _is_proven(data, pos, size)
            pos += size
            count += 1
        return 95 if count and is_exact else 60 if count else 0

    def from_dict(self, d: Json) -> BlazePacket:
        """The packet that `to_dict` described.

        Raises:
            EncodeError: the object is not such a packet.
        """
        name = d.get("packet")
        if not isinstance(name, str) or name not in _BY_NAME:
            raise EncodeError(f"there is no packet {name!r}", path="packet")
        return _BY_NAME[name].from_dict(d)

    def outline(
        self, data: bytes, *, limits: Limits = DEFAULT_LIMITS, strict: bool = False, **options: Any
    ) -> Node:
        """The field tree of the packet at the start of `data`, with the object in its body.

        What cannot be read carries the reason. Never raises DecodeError.
        """
        settings = _settings(options)
        end = len(data)
        try:
            form = form_at(data, 0, end)
        except DecodeError as error:
            return Node(self.name, 0, end, data[:4].hex(), "no packet header", error.reason)
        root = form.codec.outline(data, 0, end, form.words)
        try:
            size = measure(data, 0, end) if form.pktlen_at else form.header_len
            if size > limits.max_frame:
                raise FrameTooLargeError(size, limits.max_frame, path="pktlen")
            root = form.codec.outline(data, 0, min(size, end), form.words)
            if size > end:
                raise TruncatedError(needed=size, available=end)
            packet = _read_packet(data, form, size, settings, strict)
            _read_body(packet, form, settings, limits, strict, root)
        except DecodeError as error:
            _mark(root, error)
        rename_nodes(root, settings.dialect)
        return root

    def types(self) -> Sequence[TypeInfo]:
        """The 13 packets, from their declarations."""
        return [
            TypeInfo(code, cls.name, (cls.__doc__ or "").split("\n")[0], describe(cls))
            for code, cls in PACKETS.items()
        ]

    def packets(self) -> Sequence[type[BlazePacket]]:
        """The declared packets."""
        return tuple(PACKETS.values())

    def columns(self) -> Columns:
        """What captures, Arrow and Spark need to know about it."""
        from wireloom.formats.blaze.columns import COLUMNS

        return COLUMNS

    def samples(self) -> Mapping[str, bytes]:
        """A packet of each of the 23 forms."""
        return samples()


def _mark(root: Node, error: DecodeError) -> None:
    """Put the reason at the node that it concerns, or at the root, unless one is there already."""
    nodes = [node for _, node in root.walk()]
    found = next((node for node in nodes[1:] if node.name == error.path), None)
    place = found or root
    if not any(node.error for _, node in place.walk()):
        place.error = error.reason


def _legal_size(data: bytes, pos: int) -> int | None:
    """Bytes of the packet at `pos`, as far as is known; None if there is no legal header.

    Only version 1 without unused bits is legal here.
    """
    left = len(data) - pos
    try:
        form = form_at(data, pos, len(data))
        if data[pos] >> 2 != VERSION or data[pos + 2 : pos + 4] != b"\0\0":
            return None
        if left < form.header_len:
            return form.header_len
        size = measure(data, pos, len(data))
        header = data[pos : pos + form.header_len]
        if form.pktlen_at:
            # The header alone is legal if it is legal with an empty body.
            at = form.pktlen_at
            header = header[:at] + form.header_len.to_bytes(4, "big") + header[at + 4 :]
        packet = form.codec.decode(header, 0, form.header_len, False, form.words)
    except TruncatedError:
        return 4  # not even the first word is complete
    except DecodeError:
        return None
    assert isinstance(packet, BlazePacket)
    return None if packet.unused or size > DEFAULT_LIMITS.max_frame else size


def _is_proven(data: bytes, pos: int, size: int) -> bool:
    """Whether the packet has no body, or one whose LEN agrees with its length."""
    header_len = form_at(data, pos, pos + size).header_len
    return size == header_len or RULES.check(data, pos, pos + size, None)


def _agrees(data: bytes, pos: int, size: int) -> bool:
    """Whether a packet that the end cuts off has a body whose LEN agrees with the header."""
    if len(data) - pos < _WORD_LEN:
        return False
    at = pos + form_at(data, pos, len(data)).header_len
    body = data[at : at + _WORD_LEN]
    return len(body) == _WORD_LEN and at + _WORD_LEN + int.from_bytes(body, "little") == pos + size


FORMAT = Blaze()
