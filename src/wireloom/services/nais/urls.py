"""Where a NAIS peer is, as people write it: ``tcp://HOST:PORT``, ``serial:///dev/ttyUSB0``."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeVar, get_origin, get_type_hints
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from wireloom.errors import OptionError
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.settings import build, parse_value

__all__ = ["Url", "settings_of_query"]

T = TypeVar("T")
MQTT_PORT = 1883
MQTTS_PORT = 8883
_PORTS = {"mqtt": MQTT_PORT, "mqtts": MQTTS_PORT, "ws": 80, "ws-client": 80, "wss": 443}


@dataclass(frozen=True, slots=True)
class Url:
    """An address with its scheme.

    >>> url = Url.parse("mqtt://ann:secret@broker.example/local/board?qos=1", {"mqtt"})
    >>> url.address, url.path, str(url)
    (Address(host='broker.example', port=1883), 'local/board', 'mqtt://broker.example:1883/local/board')
    """

    scheme: str
    address: Address | None
    """None on serial lines."""
    path: str = ""
    """Topic or device; without the slash in front of a topic."""
    query: str = ""
    user: str = ""
    password: str = dataclasses.field(default="", repr=False)

    @classmethod
    def parse(cls, text: str, schemes: Collection[str]) -> Url:
        """The URL that a text is.

        Raises:
            OptionError: it is none, or of another scheme.
        """
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise OptionError(f"{_shown(text)}: {error}") from None
        if parts.scheme not in schemes:
            known = ", ".join(f"{scheme}://" for scheme in schemes)
            raise OptionError(f"{_shown(text)}: it must start with one of {known}")
        if parts.fragment:
            raise OptionError(f"{_shown(text)}: # has no meaning here")
        if parts.scheme == "serial":
            if parts.netloc or not parts.path:
                raise OptionError(f"{_shown(text)}: a device is needed, serial:///dev/ttyUSB0")
            return cls("serial", None, parts.path, parts.query)
        return cls._of_network(text, parts, port)

    @classmethod
    def _of_network(cls, text: str, parts: SplitResult, port: int | None) -> Url:
        if port is None:
            port = _PORTS.get(parts.scheme)
        if not parts.hostname or port is None:
            raise OptionError(f"{_shown(text)}: HOST:PORT is needed")
        path = unquote(parts.path).lstrip("/")
        if parts.scheme.startswith("mqtt"):
            if not path or set(path) & set("#+\0"):
                raise OptionError(f"{_shown(text)}: a topic is needed, without # and +")
        elif path and not parts.scheme.startswith("ws"):
            raise OptionError(f"{_shown(text)}: nothing may follow HOST:PORT")
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        address = Address(parts.hostname, port)
        return cls(parts.scheme, address, path, parts.query, user, password)

    def __str__(self) -> str:
        """Without names, passwords and settings: for logs and status."""
        if self.address is None:
            return f"{self.scheme}://{self.path}"
        return f"{self.scheme}://{self.address}" + (f"/{self.path}" if self.path else "")


def _shown(text: str) -> str:
    """As much of a wrong URL as holds no password."""
    head, _, tail = text.partition("?")[0].rpartition("@")
    return repr(head.partition("://")[0] + "://…@" + tail if head else tail)


def settings_of_query(cls: type[T], query: str, given: dict[str, Any]) -> T:
    """Settings as a URL has them, ``?board&max-age-s=5``, with those in `given`.

    Raises:
        OptionError: no such setting, or not such a value.
    """
    hints, found = get_type_hints(cls), dict(given)
    names = {field.name for field in dataclasses.fields(cls)} - given.keys()  # type: ignore[arg-type]
    for key, text in parse_qsl(query, keep_blank_values=True):
        name = key.replace("-", "_")
        if name not in names:
            raise OptionError(f"{key!r} is none of {', '.join(sorted(names))}")
        found[name] = _value(key, text, hints[name])
    return build(cls, found, {})


def _value(key: str, text: str, kind: Any) -> Any:
    value: Any = text
    if kind is bool:
        value = {"": True, "true": True, "false": False}.get(text.lower(), text)
    elif get_origin(kind) is tuple:
        value = text.split(",")
    elif float in (kind, *getattr(kind, "__args__", ())):
        try:
            value = float(text)
        except ValueError:
            raise OptionError(f"{key}: {text!r} is not a number") from None
    try:
        return parse_value(value, kind)
    except OptionError as error:
        raise OptionError(f"{key}: {error.reason}") from None
