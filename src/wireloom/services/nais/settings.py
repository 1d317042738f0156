"""What a junction can be told: lines, routes, limits (docs/nais-junction.md)."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from wireloom.errors import OptionError
from wireloom.formats.nais import LineRules, TypeRegistry
from wireloom.formats.nais.lines import BOARD_RULES, Direction, LineOptions, board_line
from wireloom.formats.nais.options import types_from
from wireloom.formats.nais.router import Router
from wireloom.formats.nais.rules import MAX_PAYLOAD
from wireloom.formats.nais.stream import IDLE_SERIAL_MS, IDLE_TCP_MS, MAX_TEXT
from wireloom.services._shell.sections import LimitSettings, ProgramSettings, TapSettings
from wireloom.services._shell.settings import MisplacedError, section, setting
from wireloom.services.nais.transforms import Form, form_transforms, load_transform
from wireloom.services.nais.urls import Url, settings_of_query

if TYPE_CHECKING:
    import ssl

__all__ = [
    "DirectionSettings",
    "JunctionSettings",
    "LineSettings",
    "RouteSettings",
    "parse_line",
    "parse_route",
]

SCHEMES = ("tcp", "tcp-client", "ws", "ws-client", "mqtt", "serial")
_NAME = re.compile(r"\w+", re.ASCII)
_MESSAGE_KINDS = ("ws", "ws-client", "mqtt")
_DEFAULT = LineOptions()


@dataclass(frozen=True, slots=True)
class LineSettings:
    """One line: ``[lines.NAME]``."""

    url: str = setting(
        dataclasses.MISSING,
        "Where it is: tcp:// and ws:// listen at HOST:PORT, tcp-client:// and ws-client:// connect"
        " there, mqtt://HOST/TOPIC, serial:///dev/ttyUSB0.",
        flag="",
    )
    board: bool = setting(
        False, "A board with the known firmware is there: send only what it can take."
    )
    trunk: bool = setting(False, "Another junction is there: translate its session ids.")
    form: Form = setting(
        "frames", "frames: as they are; json: as JSON texts; page: as the JSON of old web pages."
    )
    broadcast: bool = setting(
        False, "Every session gets what is for one of them, as old web pages expect."
    )
    token: str = setting(
        "", "What peers must say, or what is said to them; the password on MQTT.", is_secret=True
    )
    token_file: Path | None = setting(None, "A file with the token in it.")
    origins: tuple[str, ...] = setting(
        (), "On WebSockets: further web sites, http://HOST:PORT, whose pages may connect."
    )
    tls: bool = setting(False, "Connect with TLS, and check the server's certificate.")
    tls_ca: Path | None = setting(None, "Check it with these authorities in PEM; implies tls.")
    tls_cert: Path | None = setting(
        None, "Own certificate chain in PEM; a line that listens then serves TLS."
    )
    tls_key: Path | None = setting(None, "Its private key in PEM.")
    tls_client_ca: Path | None = setting(
        None, "Let in only clients with a certificate of these authorities."
    )
    role: Literal["board", "client"] = setting(
        "board",
        "On MQTT: board hears TOPIC and speaks on hb/TOPIC; client the other way round, to reach"
        " a board.",
    )
    qos: int = setting(0, "On MQTT: quality of service of what is published, 0 or 1.")
    baud: int = setting(115_200, "On serial lines: bits per second, 8N1.")
    max_sessions: int = setting(
        _DEFAULT.max_sessions, "Connections at the same time; more are refused."
    )
    max_ids: int = setting(
        _DEFAULT.max_ids,
        "Session ids in use or held; a connection beyond is refused, and others have room.",
    )
    max_payload: int | None = setting(
        None,
        f"Largest payload that may come in: {MAX_PAYLOAD}, from a board {BOARD_RULES.max_payload}.",
    )
    max_send_payload: int | None = setting(
        None, "Largest payload that is sent; 1 MiB, or what a board can take."
    )
    send_types: tuple[int, ...] = setting((), "TYPEs that are sent; none: all that may be.")
    max_text: int = setting(MAX_TEXT, "Bytes after which a line of text is cut.")
    idle_s: float | None = setting(
        None,
        "Seconds of silence after which half a frame is given up:"
        f" {IDLE_TCP_MS / 1000:g}, on serial lines {IDLE_SERIAL_MS / 1000:g}.",
    )
    strict_rsv: bool = setting(False, "Refuse frames whose RSV has other bits set than bit 0.")
    validate: bool = setting(False, "Drop frames without the message that their TYPE asks for.")
    notify_undeliverable: Literal["", "text", "ack"] = setting(
        "", "How a sender hears that there is no such session: text or ack."
    )
    max_queue_records: int = setting(
        _DEFAULT.max_queue_records, "Records that may wait for one session; the oldest goes first."
    )
    max_queue_bytes: int = setting(
        _DEFAULT.max_queue_bytes, "Bytes that may wait for one session; the oldest record goes."
    )
    max_stored: int = setting(
        _DEFAULT.max_stored, "Records kept for a line without a session; the oldest goes first."
    )
    max_age_s: float = setting(_DEFAULT.max_age_s, "Records that waited longer are dropped.")
    keep_when_empty: bool = setting(
        False, "Keep records also when the line had a session before, not only before its first."
    )
    max_virtual: int = setting(
        _DEFAULT.max_virtual, "Ids for the peers behind one trunk connection."
    )
    retry_s: float = setting(0.5, "Seconds before the first attempt to connect again.")
    max_retry_s: float = setting(30.0, "Seconds between attempts, at most; they double up to it.")

    def parsed(self) -> Url:
        """The URL of it.

        Raises:
            OptionError: it is none, or does not fit the other settings.
        """
        url = Url.parse(self.url, SCHEMES)
        if url.query:
            raise OptionError("in a file, settings are not part of the URL")
        listens = url.scheme in ("tcp", "ws")
        wrong = {
            "a serial line has no TLS and no token": url.scheme == "serial"
            and (self.tls or self.tls_ca or self.tls_cert or self.token or self.token_file),
            "tls and tls_ca are for lines that connect; tls_cert serves TLS": listens
            and (self.tls or self.tls_ca),
            "tls_client_ca is for lines that serve TLS": self.tls_client_ca
            and not (listens and self.tls_cert),
            "tls_key needs tls_cert": self.tls_key and not self.tls_cert,
            "a WebSocket has no old board at its end": self.board and url.scheme.startswith("ws"),
            "a trunk carries frames as they are": self.trunk and self.form != "frames",
            "token and token_file are the same": self.token and self.token_file,
            "retry_s must be positive": not self.retry_s,
            "qos is 0 or 1": self.qos > 1,
            "a name or password is for mqtt://": url.scheme != "mqtt"
            and (url.user or url.password),
        }
        for reason, is_wrong in wrong.items():
            if is_wrong:
                raise OptionError(reason)
        return url

    def secret(self) -> str:
        """The token.

        Raises:
            OptionError: the file cannot be read, or is empty.
        """
        if self.token_file is None:
            return self.token or Url.parse(self.url, SCHEMES).password
        try:
            text = self.token_file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"token_file cannot be read: {error}") from None
        if not text:
            raise OptionError("token_file is empty")
        return text

    def options(self, types: TypeRegistry) -> LineOptions:
        """How the router treats it.

        Raises:
            OptionError: settings contradict one another.
        """
        url = self.parsed()
        is_message = url.scheme in _MESSAGE_KINDS
        base = _board_options(url) if self.board else LineOptions()
        idle_s = IDLE_SERIAL_MS / 1000 if url.scheme == "serial" else base.idle_s
        incoming, outgoing = form_transforms(self.form, types, is_stream=not is_message)
        send_types = frozenset(self.send_types) if self.send_types else None
        if send_types is not None and base.send_types is not None:
            send_types &= base.send_types
        return dataclasses.replace(
            base,
            rules=LineRules(
                base.rules.max_payload if self.max_payload is None else self.max_payload,
                strict_rsv=self.strict_rsv,
            ),
            max_text=self.max_text,
            idle_s=idle_s if self.idle_s is None else self.idle_s,
            is_message_line=is_message,
            is_trunk=self.trunk,
            send_types=base.send_types if send_types is None else send_types,
            max_send_payload=min(
                base.max_send_payload,
                base.max_send_payload if self.max_send_payload is None else self.max_send_payload,
            ),
            max_queue_records=self.max_queue_records,
            max_queue_bytes=self.max_queue_bytes,
            max_stored=self.max_stored,
            max_age_s=self.max_age_s,
            keeps_when_empty=self.keep_when_empty,
            max_sessions=self.max_sessions,
            max_ids=self.max_ids,
            max_virtual=self.max_virtual,
            validates=self.validate,
            notify_undeliverable=self.notify_undeliverable,
            is_broadcast=self.broadcast,
            incoming=incoming,
            outgoing=outgoing,
        )

    def server_tls(self) -> ssl.SSLContext | None:
        """The context of a line that listens; None: no TLS.

        Raises:
            SourceError: a file cannot be read or used.
        """
        if self.tls_cert is None:
            return None
        from wireloom.services._shell.tls import server_context

        return server_context(self.tls_cert, self.tls_key, self.tls_client_ca)

    def client_tls(self) -> ssl.SSLContext | None:
        """The context of a line that connects; None: no TLS.

        Raises:
            SourceError: a file cannot be read or used.
        """
        if not (self.tls or self.tls_ca or self.tls_cert):
            return None
        from wireloom.services._shell.tls import client_context

        return client_context(self.tls_ca, self.tls_cert, self.tls_key)


def _board_options(url: Url) -> LineOptions:
    if url.scheme == "serial":
        return board_line("serial")
    if url.scheme == "mqtt":
        return board_line("mqtt", url.path)
    return board_line("tcp")


@dataclass(frozen=True, slots=True)
class DirectionSettings:
    """What passes in one direction of a route."""

    types: tuple[int, ...] = setting((), "Only frames of these TYPEs pass; none: all.")
    block: tuple[int, ...] = setting((), "Frames of these TYPEs do not pass.")
    text: bool = setting(True, "Whether text passes.")
    open: bool = setting(True, "Whether anything passes.")
    transform: str = setting(
        "", "to_json, from_json, to_page, from_page, or a function of yours: package.module:name."
    )

    def direction(self, types: TypeRegistry) -> Direction:
        """The same for the router.

        Raises:
            OptionError: there is no such transform.
        """
        return Direction(
            types=frozenset(self.types) or None,
            blocked=frozenset(self.block),
            has_text=self.text,
            is_open=self.open,
            transform=load_transform(self.transform, types) if self.transform else None,
        )


@dataclass(frozen=True, slots=True)
class RouteSettings:
    """Two lines that are connected: ``[[routes]]``."""

    a: str = setting(dataclasses.MISSING, "The one line.", flag="")
    b: str = setting(dataclasses.MISSING, "The other line.", flag="")
    forward: DirectionSettings = section(DirectionSettings)
    """From a to b."""
    backward: DirectionSettings = section(DirectionSettings)
    """From b to a."""


@dataclass(frozen=True, slots=True)
class JunctionSettings:
    """All that ``wireloom serve nais`` can be told."""

    line: tuple[str, ...] = setting(
        (),
        "A line: tcp:// and ws:// listen at HOST:PORT, tcp-client:// and ws-client:// connect"
        " there; mqtt://HOST:PORT/TOPIC; serial:///dev/ttyUSB0. Settings of the line follow a ?,"
        " such as ?board or ?trunk.",
        flag="--line",
        metavar="NAME=URL",
    )
    route: tuple[str, ...] = setting(
        (), "Connect two lines, both ways; A>B: one way.", flag="--route", metavar="A-B"
    )
    lines: dict[str, LineSettings] = setting({}, "Lines, each in a table.", flag="")
    routes: list[RouteSettings] = setting([], "Routes, each in a table.", flag="")
    proto: tuple[Path, ...] = setting(
        (),
        "A .proto file or descriptor set with your own messages.",
        flag="--proto",
        metavar="FILE",
    )
    bind: tuple[str, ...] = setting(
        (), "Which TYPE carries which of them.", flag="--bind", metavar="TYPE=MESSAGE"
    )
    limits: LimitSettings = section(LimitSettings)
    tap: TapSettings = section(TapSettings)
    program: ProgramSettings = section(ProgramSettings)

    def all_lines(self) -> dict[str, LineSettings]:
        """Those in tables, then the others.

        Raises:
            OptionError: a line is wrong, there are two of one name, or none at all.
        """
        found = dict(self.lines)
        for text in self.line:
            name, line = parse_line(text)
            if name in found:
                raise OptionError(f"line {name!r} is there twice")
            found[name] = line
        for name, line in found.items():
            if not _NAME.fullmatch(name):
                reason = f"line {name!r}: a name is made of letters, digits and _"
                raise MisplacedError(f"lines.{name}", reason)
            try:
                line.parsed()
            except OptionError as error:
                raise MisplacedError(f"lines.{name}", f"line {name!r}: {error.reason}") from None
        if not found:
            raise OptionError("a junction needs a line")
        return found

    def all_routes(self) -> list[RouteSettings]:
        """Those in tables, then the others.

        Raises:
            OptionError: a route is wrong.
        """
        return [*self.routes, *map(parse_route, self.route)]

    def check(self) -> None:
        """Whether a junction can be made of it.

        Raises:
            OptionError: lines or routes contradict one another.
            SourceError: a file that they name cannot be used.
        """
        types, router = self.registry(), Router()
        for name, line in self.all_lines().items():
            try:
                router.add_line(name, line.options(types))
                line.secret()
            except OptionError as error:
                raise MisplacedError(f"lines.{name}", f"line {name!r}: {error.reason}") from None
            line.server_tls() if line.parsed().scheme in ("tcp", "ws") else line.client_tls()
        for at, route in enumerate(self.all_routes()):
            try:
                forward, backward = route.forward.direction(types), route.backward.direction(types)
                router.add_route(route.a, route.b, forward, backward)
            except OptionError as error:
                reason = f"route {route.a}-{route.b}: {error.reason}"
                raise MisplacedError(f"routes.{at}", reason) from None

    def registry(self) -> TypeRegistry:
        """The schemas of payloads.

        Raises:
            OptionError: a message to bind does not exist.
            SourceError: a file is wrong.
        """
        proto = tuple(map(str, self.proto))
        return types_from({"proto": proto, "bind": self.bind} if proto or self.bind else {})


def parse_line(text: str) -> tuple[str, LineSettings]:
    """A line as on the command line: ``NAME=tcp://HOST:PORT?board``.

    Raises:
        OptionError: it is not such a text.
    """
    name, _, url = text.partition("=")
    if not _NAME.fullmatch(name):
        raise OptionError(f"line {name!r}: a name is made of letters, digits and _")
    base, _, query = url.partition("?")
    try:
        line = settings_of_query(LineSettings, query, {"url": base})
        line.parsed()
    except OptionError as error:
        raise OptionError(f"line {name!r}: {error.reason}") from None
    return name, line


def parse_route(text: str) -> RouteSettings:
    """A route as on the command line: ``A-B``, or ``A>B`` for one direction.

    Raises:
        OptionError: it is not such a text.
    """
    found = re.fullmatch(r"(\w+)([->])(\w+)", text, re.ASCII)
    if found is None:
        raise OptionError(f"route {text!r}: two names of lines with - or > between them are needed")
    a, sign, b = found.groups()
    return RouteSettings(a, b, backward=DirectionSettings(open=sign == "-"))
