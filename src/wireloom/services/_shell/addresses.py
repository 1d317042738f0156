"""Addresses as people write them: ``HOST:PORT``, ``[::1]:PORT``."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from ipaddress import ip_address

from wireloom.errors import OptionError

__all__ = ["Address"]


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen or connect.

    >>> Address.parse("[::1]:80"), str(Address("::1", 80))
    (Address(host='::1', port=80), '[::1]:80')
    """

    host: str
    port: int
    """0: any that is free, when listening."""

    @classmethod
    def parse(cls, text: str, default_port: int | None = None) -> Address:
        """The address that a text names.

        Raises:
            OptionError: it is not ``HOST:PORT``.
        """
        host, colon, port = text.rpartition(":")
        if default_port is not None and (not colon or text.endswith("]")):
            host, port = text, str(default_port)
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise OptionError(f"{text!r}: an IPv6 address needs brackets, [HOST]:PORT")
        if not host or not port.isascii() or not port.isdigit() or int(port) > 0xFFFF:
            raise OptionError(f"{text!r} is not HOST:PORT")
        return cls(host, int(port))

    @classmethod
    def of_socket(cls, name: tuple[object, ...]) -> Address:
        """The address that ``getsockname()`` or ``getpeername()`` gave.

        >>> str(Address.of_socket(("::ffff:127.0.0.1", 80, 0, 0)))  # IPv4, on a socket for both
        '127.0.0.1:80'
        """
        host = str(name[0])
        if host.startswith("::ffff:") and "." in host:
            host = host.removeprefix("::ffff:")
        if len(name) > 3 and name[3] and "%" not in host:
            host += f"%{socket.if_indextoname(int(str(name[3])))}"
        return cls(host, int(str(name[1])))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        try:
            return ip_address(self.host.partition("%")[0]).is_loopback
        except ValueError:
            return self.host == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
