"""A NAIS client: asks boards and hears what they report, directly or through a junction.

::

    async with Client("tcp://127.0.0.1:3002") as client:
        answer = await client.command(1, type=10, ivals=[7, 5])
        with client.events(12) as movements:
            async for event in movements:
                ...

A connection that is lost is made again, and requests without an answer are sent again with the
same ``seq``. A board that has moved to another session in between may carry out a command twice:
NAIS cannot promise more.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import ssl
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

from wireloom.errors import ConnectionClosed, StateError
from wireloom.formats.nais import CommandId, NaisPacket, NaisType, StreamDecoder, TypeRegistry
from wireloom.formats.nais.board import LEDS_TYPE
from wireloom.formats.nais.lines import LineOptions, board_line
from wireloom.formats.nais.rules import SYNC_START
from wireloom.formats.nais.schema import BUILT_IN
from wireloom.formats.nais.session import (
    RETRIES,
    TIMEOUT_S,
    Acknowledged,
    ClientSession,
    ConfigReceived,
    EventReceived,
    LineEvent,
    PacketReceived,
    ProblemFound,
    RequestFailed,
    TextReceived,
)
from wireloom.services._shell.logs import get_log
from wireloom.services._shell.tasks import Tasks
from wireloom.services._shell.tls import client_context
from wireloom.services.nais.links import Link, LinkOptions, open_link
from wireloom.services.nais.urls import Url

__all__ = ["Answer", "Client", "Subscription"]

log = get_log("nais.client")

_T = TypeVar("_T")
SCHEMES = ("tcp", "tls", "ws", "wss", "serial", "mqtt", "mqtts")
_TLS_SCHEMES = ("tls", "wss", "mqtts")
RETRY_S = 0.2
MAX_RETRY_S = 10.0
MAX_WAITING = 4096
"""Events or texts that wait for one subscriber; then the oldest goes."""
_MAX_SEQ = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Answer:
    """What a board answered."""

    status: int
    """0 or above: it was done."""
    board: int
    """Session id of the board; 0 without a junction."""
    config: Mapping[str, object] | None = None
    """Its Config, if that was asked for."""

    @property
    def is_success(self) -> bool:
        """Whether the board did it."""
        return self.status >= 0


class Subscription(Generic[_T]):
    """Things that happen, as they come; iterate over it, and close it."""

    def __init__(self, owner: set[Subscription[_T]], ids: frozenset[int] = frozenset()) -> None:
        self._owner = owner
        self._ids = ids
        self._waiting: deque[_T] = deque()
        self._wake = asyncio.Event()
        self._is_closed = False
        self.dropped = 0
        """How many had to go because nobody took them."""
        owner.add(self)

    def put(self, item: _T, id: int | None = None) -> None:
        """Hand one over."""
        if self._ids and id not in self._ids:
            return
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self.dropped += 1
        self._waiting.append(item)
        self._wake.set()

    def close(self) -> None:
        """Hear no more; what has come already can still be taken."""
        self._is_closed = True
        self._owner.discard(self)
        self._wake.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _T:
        while not self._waiting:
            if self._is_closed:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        return self._waiting.popleft()


class Client:
    """A connection to a junction or a board, made again when it is lost.

    Args:
        url: ``tcp://HOST:PORT``, ``ws://HOST:PORT``, ``serial:///dev/ttyUSB0``,
            ``mqtt://HOST/TOPIC``; with TLS ``tls://``, ``wss://``, ``mqtts://``.
        token: what the other end wants to hear.
        tls: other than the system's authorities and no certificate of one's own.
        types: the schemas of custom types.
        is_board: the other end is an old board itself: refuse at once what it cannot take.
        timeout_s: how long to wait for one answer.
        retries: how often to send again.
        reconnects: whether to connect again.
        baud: of a serial line.

    Raises:
        OptionError: the URL is none.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str = "",
        tls: ssl.SSLContext | None = None,
        types: TypeRegistry = BUILT_IN,
        is_board: bool = False,
        timeout_s: float = TIMEOUT_S,
        retries: int = RETRIES,
        reconnects: bool = True,
        baud: int = 115_200,
    ) -> None:
        self.url = Url.parse(url, SCHEMES)
        if tls is None and self.url.scheme in _TLS_SCHEMES:
            tls = client_context()
        self._options = LinkOptions(token=token, tls=tls, baud=baud, is_mqtt_client=True)
        self._line = _line(self.url, is_board)
        self._types = types
        self._timeout_s, self._retries = timeout_s, retries
        self._reconnects = reconnects
        self._session: ClientSession | None = None
        self._link: Link | None = None
        self._futures: dict[int, asyncio.Future[LineEvent]] = {}
        self._seq = random.randrange(_MAX_SEQ)
        self._up = asyncio.Event()
        self._changed = asyncio.Event()
        self._timed = asyncio.Event()
        """Set when a session may have other times to look after."""
        self._sending = asyncio.Lock()
        self._tasks = Tasks()
        self._is_closed = False
        self._is_over = False
        """Whether there will be no further connection."""
        self._events: set[Subscription[EventReceived]] = set()
        self._texts: set[Subscription[str]] = set()
        self._packets: set[Subscription[NaisPacket]] = set()
        self.reconnections = 0
        """How often the connection had to be made again."""
        self.problems = 0
        """Bytes or payloads that could not be read, how often."""

    # -- its life

    async def connect(self) -> None:
        """Connect.

        Raises:
            OSError: nobody is there.
            ConnectionClosed: who is there does not want us.
            StateError: it was closed, or is connected.
        """
        if self._is_closed or self._is_over or len(self._tasks):
            raise StateError("a client is used once")
        link = await open_link(self.url, self._options)
        self._tasks.start(self._run(link), "client")
        await self._up.wait()

    async def close(self) -> None:
        """End it; requests without an answer fail. A second time: no effect."""
        self._is_closed = True
        await self._tasks.cancel()
        open_now: list[Subscription[Any]] = [*self._events, *self._texts, *self._packets]
        for each in open_now:
            each.close()

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return self._up.is_set()

    # -- asking

    async def request(
        self,
        type: int | str,
        message: Mapping[str, object],
        *,
        board: int = 0,
        expects_answer: bool = True,
        wants_config: bool = False,
        timeout_s: float | None = None,
        retries: int | None = None,
    ) -> Answer | None:
        """Send a message and wait for its answer; None when none is expected.

        Args:
            type: TYPE, or the name of the message bound to it.
            message: in protobuf's JSON form. A Command without ``seq`` gets one.
            board: session id of the one to ask; 0: all, and the first answer counts.
            expects_answer: False for what old boards do not answer.
            wants_config: whether the answer is a Config.
            timeout_s: for this one.
            retries: for this one.

        Raises:
            EncodeError: the message does not fit its schema or the line.
            TimeoutError: no answer came.
            ConnectionClosed: the connection is lost for good.
            StateError: too many requests wait.
        """
        loop = asyncio.get_running_loop()
        limit = self._timeout_s if timeout_s is None else timeout_s
        times = 1 + (self._retries if retries is None else retries)
        until = loop.time() + limit * times
        message = self._numbered(type, message)
        while True:
            session = await self._session_by(until)
            left = max(0, math.ceil((until - loop.time()) / limit) - 1)
            number = session.request(
                type,
                message,
                loop.time(),
                board=board,
                expects_answer=expects_answer,
                wants_config=wants_config,
                timeout_s=limit,
                retries=left,
            )
            if not expects_answer:
                try:
                    await self._flush()
                except ConnectionClosed:
                    if loop.time() >= until:
                        raise
                    await asyncio.sleep(RETRY_S)  # for the next connection
                    continue
                return None
            future = self._futures[number] = loop.create_future()
            self._timed.set()
            try:
                with contextlib.suppress(ConnectionClosed):  # then the future says so, too
                    await self._flush()
                event = await future
            finally:
                self._futures.pop(number, None)
            if isinstance(event, Acknowledged):
                return Answer(event.status, event.board)
            if isinstance(event, ConfigReceived):
                return Answer(0, event.board, event.config)
            if not session.is_closed or loop.time() >= until:
                raise TimeoutError(f"no answer within {limit:g} s, asked {times} times")

    def _numbered(self, type: int | str, message: Mapping[str, object]) -> Mapping[str, object]:
        code = self._types.type_of(type) if isinstance(type, str) else type
        schema = self._types.schema(code)
        if schema is None or schema.full_name != "Command" or "seq" in message:
            return message
        self._seq = self._seq % _MAX_SEQ + 1
        return {**message, "seq": self._seq}

    async def _session_by(self, until: float) -> ClientSession:
        """The session of the connection there is, or will be until then."""
        while self._session is None:
            if self._is_closed or self._is_over:
                raise ConnectionClosed(f"{self.url}: the connection is lost")
            try:
                async with asyncio.timeout_at(until):
                    await self._changed.wait()
                    self._changed.clear()
            except TimeoutError:
                raise TimeoutError(f"{self.url} is not connected") from None
        return self._session

    async def profile(self, uid: str, pwd: str, *, board: int = 0) -> Answer:
        """Tell a board the name and password of a WLAN.

        Raises:
            EncodeError: the message does not fit its schema or the line.
            ConnectionClosed: the connection is lost for good.
            TimeoutError: no answer came.
        """
        return await self._ask(NaisType.PROFILE, {"uid": uid, "pwd": pwd}, board=board)

    async def config(self, config: Mapping[str, object], *, board: int = 0) -> Answer:
        """Tell a board where to report to.

        Raises:
            EncodeError: the message does not fit its schema or the line.
            ConnectionClosed: the connection is lost for good.
            TimeoutError: no answer came.
        """
        return await self._ask(NaisType.CONFIG, config, board=board)

    async def get_config(self, *, board: int = 0) -> Answer:
        """Ask a board for its Config.

        Raises:
            EncodeError: the message does not fit its schema or the line.
            ConnectionClosed: the connection is lost for good.
            TimeoutError: no answer came.
        """
        message = {"id": int(CommandId.GET_CONFIG)}
        return await self._ask(NaisType.COMMAND, message, board=board, wants_config=True)

    async def secret(
        self, key: str, *, board: int = 0, expects_answer: bool = False
    ) -> Answer | None:
        """Set the password of a board's access point; known boards restart without an answer.

        Raises:
            EncodeError: the message does not fit its schema or the line.
            ConnectionClosed: the connection is lost for good.
            TimeoutError: no answer came.
        """
        return await self.request(
            NaisType.SECRET, {"key": key}, board=board, expects_answer=expects_answer
        )

    async def command(
        self,
        id: int,
        *,
        type: int = NaisType.COMMAND,
        svals: Iterable[str] = (),
        ivals: Iterable[int] = (),
        board: int = 0,
        expects_answer: bool = True,
    ) -> Answer | None:
        """Have a board do something: a built-in command, or a custom one by its TYPE.

        Raises:
            EncodeError: the message does not fit its schema or the line.
            ConnectionClosed: the connection is lost for good.
            TimeoutError: no answer came.
        """
        message = {"id": int(id), "svals": list(svals), "ivals": list(ivals)}
        return await self.request(type, message, board=board, expects_answer=expects_answer)

    async def leds(self, mask: int = 0, values: int = 0, *, board: int = 0) -> int:
        """Switch LEDs of the demonstration (red 1, yellow 2, green 4): what is lit then.

        Raises:
            EncodeError: the message does not fit its schema or the line.
            ConnectionClosed: the connection is lost for good.
            TimeoutError: no answer came.
        """
        ivals = {"ivals": [mask, values]} if mask else {}
        answer = await self._ask(LEDS_TYPE, {"id": 1, **ivals}, board=board)
        return answer.status

    async def _ask(self, type: int, message: Mapping[str, object], **how: Any) -> Answer:
        answer = await self.request(type, message, **how)
        assert answer is not None
        return answer

    # -- other things to send

    async def send_packet(self, packet: NaisPacket) -> None:
        """Send any packet, and wait for nothing.

        Raises:
            EncodeError: the far end cannot take it.
            TimeoutError: there is no connection.
            ConnectionClosed: it is lost; the packet may have arrived or not.
        """
        (await self._soon()).send_packet(packet)
        await self._flush()

    async def send_text(self, text: str) -> None:
        """Send a line of text.

        Raises:
            EncodeError: it holds the byte that starts a frame.
            TimeoutError: there is no connection.
            ConnectionClosed: it is lost; the text may have arrived or not.
        """
        (await self._soon()).send_text(text)
        await self._flush()

    async def _soon(self) -> ClientSession:
        return await self._session_by(asyncio.get_running_loop().time() + self._timeout_s)

    # -- hearing

    def events(self, *ids: int) -> Subscription[EventReceived]:
        """Events from now on, those with these ids; without ids: all."""
        return Subscription(self._events, frozenset(ids))

    def texts(self) -> Subscription[str]:
        """Lines of text from now on: what boards print."""
        return Subscription(self._texts)

    def packets(self) -> Subscription[NaisPacket]:
        """Packets from now on that answer no request and are no events."""
        return Subscription(self._packets)

    # -- the connection

    async def _run(self, link: Link) -> None:
        try:
            await self._keep_connected(link)
        finally:
            self._is_over = True
            self._changed.set()

    async def _keep_connected(self, link: Link) -> None:
        delay = RETRY_S
        while True:
            try:
                await self._serve(link)
            finally:
                self._up.clear()
                await link.close()
            if not self._reconnects:
                return
            while True:
                await asyncio.sleep(delay * random.uniform(0.8, 1.2))
                delay = min(delay * 2, MAX_RETRY_S)
                try:
                    link = await open_link(self.url, self._options)
                    break
                except (OSError, ConnectionClosed) as error:
                    log.debug("not_connected", url=str(self.url), error=str(error))
            self.reconnections += 1
            delay = RETRY_S

    async def _serve(self, link: Link) -> None:
        session = ClientSession(
            self._line, self._types, timeout_s=self._timeout_s, retries=self._retries
        )
        session.subscribe()
        self._session, self._link = session, link
        self._up.set()
        self._changed.set()
        loop = asyncio.get_running_loop()
        timer = loop.create_task(self._look_after_time(session), name="timer")
        try:
            while data := await link.receive():
                if link.is_message and data[0] != SYNC_START and not data.endswith(b"\n"):
                    data += b"\n"  # the message ends here, so the line of text does
                self._dispatch(session.receive(data, loop.time()))
                self._timed.set()
        finally:
            self._session = self._link = None
            timer.cancel()
            # Ends what waits on it, too.
            self._dispatch(session.receive(b"", loop.time()))
            await asyncio.gather(timer, return_exceptions=True)

    async def _look_after_time(self, session: ClientSession) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._timed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(session.next_timeout(loop.time())):
                    await self._timed.wait()
            self._dispatch(session.handle_timeout(loop.time()))
            with contextlib.suppress(ConnectionClosed):
                await self._flush()

    async def _flush(self) -> None:
        """Send what the session has to send."""
        async with self._sending:
            session, link = self._session, self._link
            if session is None or link is None:
                raise ConnectionClosed(f"{self.url}: the connection is lost")
            data = session.data_to_send()
            if not data:
                return
            if not link.is_message:
                await link.send(data)
                return
            decoder = StreamDecoder(self._line.rules)
            for record in (*decoder.feed(data), *decoder.close()):
                await link.send(record.data)

    def _dispatch(self, events: Iterable[LineEvent]) -> None:
        for event in events:
            if isinstance(event, (Acknowledged, ConfigReceived, RequestFailed)):
                future = self._futures.get(event.request)
                if future is not None and not future.done():
                    future.set_result(event)
            elif isinstance(event, EventReceived):
                for events_to in list(self._events):
                    events_to.put(event, event.id)
            elif isinstance(event, TextReceived):
                text = event.data.decode("utf-8", "backslashreplace").rstrip("\r\n")
                for texts_to in list(self._texts):
                    texts_to.put(text)
            elif isinstance(event, PacketReceived):
                for packets_to in list(self._packets):
                    packets_to.put(event.packet)
            elif isinstance(event, ProblemFound):
                self.problems += 1


def _line(url: Url, is_board: bool) -> LineOptions:
    if not is_board:
        return LineOptions()
    if url.scheme == "serial":
        return board_line("serial")
    if url.scheme.startswith("mqtt"):
        return board_line("mqtt", url.path)
    return board_line("tcp")
