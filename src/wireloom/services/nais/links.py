"""Connections that a client, a board or a junction's line makes: TCP, WebSocket, MQTT, serial.

A `Link` carries bytes one way and the other, whatever is below it. On links that carry messages
(WebSocket, MQTT) each `send` and each `receive` is one frame or one text.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import ssl
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from wireloom.errors import ConnectionClosed, OptionError
from wireloom.formats.nais.rules import SYNC_START
from wireloom.services._shell.addresses import Address
from wireloom.services.nais.urls import Url

if TYPE_CHECKING:
    from websockets.asyncio.connection import Connection

__all__ = ["Link", "LinkOptions", "MqttLink", "SerialLink", "TcpLink", "WsLink", "open_link"]

CONNECT_S = 10.0
"""Seconds for a connection to come up."""
_READ_BYTES = 1 << 16
_SERIAL_QUEUE = 64
"""Reads of a serial line that wait for the program, each of at most 64 KiB."""
_MQTT_KEEP_ALIVE_S = 60
_MQTT_QUEUE = 4096
"""Messages of a broker that wait for the program; then the oldest goes."""
TOKEN_WORD = "token "
"""How the first line of a TCP connection begins where a token is needed."""

END = b""
"""What `receive` gives at the end."""


class Link(Protocol):
    """A connection."""

    is_message: bool
    """Whether each `send` and `receive` is one record."""
    remote: Address
    local: Address

    async def receive(self) -> bytes:
        """What has come; ``b""`` at the end, however it came."""
        ...

    async def send(self, data: bytes) -> None:
        """Send bytes; returns when more can be sent.

        Raises:
            ConnectionClosed: the connection has ended.
        """
        ...

    async def close(self) -> None:
        """End it; a second time: no effect."""
        ...


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """How a link is made."""

    token: str = ""
    """Said to the other end: a line of text on TCP, a bearer on WebSocket, a password on MQTT."""
    tls: ssl.SSLContext | None = None
    baud: int = 115_200
    is_mqtt_client: bool = False
    """On MQTT: whether this end speaks to a board, and is none."""
    qos: int = 0
    max_message: int = (1 << 20) + 64
    """Largest message of a WebSocket that is taken."""


async def open_link(url: Url, options: LinkOptions) -> Link:
    """Connect.

    Raises:
        OSError: there is nobody, or not who should be.
        ConnectionClosed: the other end does not want us.
        OptionError: what is needed for such a connection is not installed here.
    """
    try:
        async with asyncio.timeout(CONNECT_S):
            if url.scheme == "serial":
                return SerialLink(url.path, options.baud)
            if url.scheme.startswith("ws"):
                return await WsLink.connect(url, options)
            if url.scheme.startswith("mqtt"):
                return await MqttLink.connect(url, options)
            return await TcpLink.connect(url, options)
    except TimeoutError:
        raise ConnectionClosed(f"{url} does not answer within {CONNECT_S:g} s") from None


class TcpLink:
    """A TCP connection, with or without TLS."""

    is_message = False

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.remote = Address.of_socket(writer.get_extra_info("peername") or ("", 0))
        self.local = Address.of_socket(writer.get_extra_info("sockname") or ("", 0))

    @classmethod
    async def connect(cls, url: Url, options: LinkOptions) -> TcpLink:
        """Connect to ``HOST:PORT``, and say the token.

        Raises:
            OSError: it cannot be done.
        """
        assert url.address is not None
        reader, writer = await asyncio.open_connection(
            url.address.host, url.address.port, ssl=options.tls
        )
        if options.token:
            writer.write(f"{TOKEN_WORD}{options.token}\n".encode())
        return cls(reader, writer)

    async def receive(self) -> bytes:
        """Some bytes; none at the end."""
        try:
            return await self._reader.read(_READ_BYTES)
        except OSError:
            return END

    async def send(self, data: bytes) -> None:
        """Send bytes.

        Raises:
            ConnectionClosed: the connection has ended.
        """
        try:
            self._writer.write(data)
            await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise ConnectionClosed(f"the connection has ended: {error}") from None

    async def close(self) -> None:
        """Send what was written, and close."""
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(1.0):
                await self._writer.wait_closed()
        self._writer.transport.abort()


class WsLink:
    """A WebSocket: frames are binary messages, everything else is text where it can be."""

    is_message = True

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.remote = Address.of_socket(connection.remote_address or ("", 0))
        self.local = Address.of_socket(connection.local_address or ("", 0))

    @classmethod
    async def connect(cls, url: Url, options: LinkOptions) -> WsLink:
        """Connect and shake hands.

        Raises:
            OSError: it cannot be done.
            ConnectionClosed: the server does not want us.
            OptionError: the package websockets is missing.
        """
        try:
            from websockets.asyncio.client import connect
            from websockets.exceptions import WebSocketException
        except ImportError:
            raise _missing("websockets") from None
        headers = {"Authorization": f"Bearer {options.token}"} if options.token else None
        scheme = "ws" if options.tls is None else "wss"
        try:
            connection = await connect(
                f"{scheme}://{url.address}/{url.path}",
                additional_headers=headers,
                ssl=options.tls,
                max_size=options.max_message,
                compression=None,
                proxy=None,
            )
        except WebSocketException as error:
            raise ConnectionClosed(f"{url}: {error}") from None
        return cls(connection)

    async def receive(self) -> bytes:
        """One message; nothing at the end. An empty message is none."""
        from websockets.exceptions import ConnectionClosed as Closed

        try:
            while not (message := await self._connection.recv()):
                pass
        except (Closed, OSError):
            return END
        return message.encode() if isinstance(message, str) else message

    async def send(self, data: bytes) -> None:
        """Send one record.

        Raises:
            ConnectionClosed: the connection has ended.
        """
        from websockets.exceptions import ConnectionClosed as Closed

        try:
            await self._connection.send(as_message(data))
        except (Closed, OSError) as error:
            raise ConnectionClosed(f"the WebSocket has ended: {error}") from None

    async def close(self) -> None:
        """Say goodbye, and close."""
        await self._connection.close()


def as_message(data: bytes) -> bytes | str:
    """A record as the message of a WebSocket."""
    if data[0] == SYNC_START:
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


class MqttLink:
    """A topic of an MQTT broker, seen from the board's end or from the other."""

    is_message = True

    def __init__(self, client: Any, url: Url, options: LinkOptions) -> None:
        self._client = client
        own, other = url.path, f"hb/{url.path}"
        self._hears, self._speaks = (other, own) if options.is_mqtt_client else (own, other)
        self._qos = options.qos
        self._is_closed = False
        assert url.address is not None
        self.remote = url.address
        self.local = Address("127.0.0.1", 0)

    @classmethod
    async def connect(cls, url: Url, options: LinkOptions) -> MqttLink:
        """Connect to the broker and subscribe.

        Raises:
            ConnectionClosed: the broker is not there, or does not want us.
            OptionError: the package aiomqtt is missing.
        """
        try:
            import aiomqtt
        except ImportError:
            raise _missing("aiomqtt") from None
        assert url.address is not None
        client = aiomqtt.Client(
            url.address.host,
            url.address.port,
            username=url.user or None,
            password=options.token or url.password or None,
            tls_context=options.tls,
            keepalive=_MQTT_KEEP_ALIVE_S,
            timeout=CONNECT_S,
            max_queued_incoming_messages=_MQTT_QUEUE,
            logger=_quiet_log(),
        )
        link = cls(client, url, options)
        try:
            await client.__aenter__()
            try:
                await client.subscribe(link._hears, qos=1)
            except BaseException:
                await link.close()
                raise
        except (aiomqtt.MqttError, OSError) as error:
            raise ConnectionClosed(f"{url}: {error}") from None
        return link

    async def receive(self) -> bytes:
        """One message; nothing at the end. An empty message is none."""
        import aiomqtt

        try:
            async for message in self._client.messages:
                if isinstance(message.payload, bytes) and message.payload:
                    return message.payload
        except aiomqtt.MqttError:
            pass
        return END

    async def send(self, data: bytes) -> None:
        """Publish one record.

        Raises:
            ConnectionClosed: the broker is gone.
        """
        import aiomqtt

        try:
            await self._client.publish(self._speaks, data, qos=self._qos)
        except aiomqtt.MqttError as error:
            raise ConnectionClosed(f"the broker is gone: {error}") from None

    async def close(self) -> None:
        """Say goodbye to the broker."""
        import aiomqtt

        if not self._is_closed:
            self._is_closed = True
            with contextlib.suppress(aiomqtt.MqttError, OSError):
                await self._client.__aexit__(None, None, None)


def _quiet_log() -> logging.Logger:
    """For a library that says what we say, or what is none of the user's business."""
    log = logging.getLogger("wireloom.mqtt")
    log.setLevel(logging.CRITICAL + 1)
    return log


class SerialLink:
    """A serial line, 8N1.

    Args:
        device: its file.
        baud: bits per second.

    Raises:
        OSError: the device is not there, or somebody else has it.
        OptionError: the package pyserial is missing, or the system is none that can wait for a
            serial line together with sockets.
    """

    is_message = False

    def __init__(self, device: str, baud: int = 115_200) -> None:
        if sys.platform == "win32":
            raise OptionError("serial lines need a POSIX system")
        try:
            import serial
        except ImportError:
            raise _missing("pyserial") from None
        try:
            self._port = serial.Serial(device, baud, timeout=0, write_timeout=0, exclusive=True)
        except (serial.SerialException, ValueError) as error:
            raise OSError(getattr(error, "errno", None), str(error), device) from error
        self._loop = asyncio.get_running_loop()
        self._fd: int = self._port.fileno()
        os.set_blocking(self._fd, False)
        self._read: asyncio.Queue[bytes] = asyncio.Queue(_SERIAL_QUEUE)
        self._is_closed = self._is_paused = False
        self.remote = self.local = Address("127.0.0.1", 0)
        self._loop.add_reader(self._fd, self._readable)

    def _readable(self) -> None:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # unplugged
            data = END
        self._read.put_nowait(data)
        # No hardware stops for us, but what the system's own buffer holds need not be ours, too.
        if data == END or self._read.full():
            self._is_paused = True
            self._loop.remove_reader(self._fd)

    async def receive(self) -> bytes:
        """Some bytes; none when the device has gone."""
        if self._is_closed:
            return END
        data = await self._read.get()
        if data == END:
            self._read.put_nowait(END)  # and so from now on
        elif self._is_paused and not self._is_closed:
            self._is_paused = False
            self._loop.add_reader(self._fd, self._readable)
        return data

    async def send(self, data: bytes) -> None:
        """Send bytes, at the speed of the line.

        Raises:
            ConnectionClosed: the device has gone.
        """
        rest = memoryview(data)
        while rest:
            if self._is_closed:
                raise ConnectionClosed("the serial line is closed")
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                await self._writable()
            except OSError as error:
                raise ConnectionClosed(f"the serial line has gone: {error}") from None

    async def _writable(self) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()

        def done() -> None:
            if not ready.done():
                ready.set_result(None)

        self._loop.add_writer(self._fd, done)
        try:
            await ready
        finally:
            if not self._is_closed:
                self._loop.remove_writer(self._fd)

    async def close(self) -> None:
        """Let go of the device."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)
            self._port.close()
            if not self._read.full():
                self._read.put_nowait(END)


def _missing(package: str) -> OptionError:
    return OptionError(f"this needs {package}: pip install 'wireloom[serve]'")
