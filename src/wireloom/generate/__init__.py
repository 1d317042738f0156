"""Realistic captures of every format: seeded, sized, with faults on request.

No public captures of these formats exist. `generate` makes them, and says in a `Manifest` what it
wrote; `write_schemas` gives the dictionary, the model and the schema that the traffic needs.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import heapq
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, BinaryIO, cast

from wireloom.errors import OptionError
from wireloom.generate.blaze import blaze_session, quote_encoder, quote_session
from wireloom.generate.manifest import Manifest
from wireloom.generate.market import (
    ENCODERS,
    Encoder,
    Feed,
    carrier_encoder,
    market_session,
)
from wireloom.generate.nais import nais_session
from wireloom.generate.nrep import feed_encoder, nrep_session
from wireloom.generate.schemas import (
    BINDINGS,
    DICTIONARY,
    MODEL,
    PROTO,
    descriptor_set,
    write_schemas,
)
from wireloom.generate.traffic import Faults
from wireloom.generate.wire import (
    Burst,
    Channel,
    Kind,
    PacketFile,
    RawFile,
    Stage,
    Target,
)

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdFile
else:
    from backports.zstd import ZstdFile

__all__ = [
    "BINDINGS",
    "COMPRESSIONS",
    "CONTAINERS",
    "DICTIONARY",
    "MODEL",
    "PORTS",
    "PROTO",
    "SCENARIOS",
    "START_NS",
    "Faults",
    "Manifest",
    "descriptor_set",
    "generate",
    "write_schemas",
]

PORTS = {
    7500: "tibmsg",
    7501: "tibrv",
    7502: "qform",
    7600: "blaze",
    7700: "nais",
    2888: "nrep",
    6543: "nrep",
}
"""Port of the server → format."""
START_NS = 1_700_058_600_000_000_000
"""Time of the first packet: 15 November 2023, 14:30 UTC, when trading starts in New York."""
CONTAINERS = ("raw", "pcap", "pcapng")
"""What a capture can be."""
COMPRESSIONS = ("", "gzip", "zstd")
"""How a capture can be packed."""
SCENARIOS = (
    "tibmsg",
    "tibrv",
    "qform",
    "blaze",
    "nais",
    "nrep",
    "tibmsg-in-tibrv",
    "tibrv-in-nrep",
    "qform-in-blaze",
)
"""Kinds of sessions: one per format, and those with one format inside another."""


def generate(
    target: str | os.PathLike[str] | BinaryIO,
    formats: Sequence[str] | None = None,
    *,
    size: int | None = None,
    messages: int | None = None,
    seed: int = 0,
    container: str = "pcapng",
    compression: str = "",
    faults: Faults | None = None,
    one_way: bool = False,
    connections: int = 2,
    symbols: int = 200,
    checksums: bool = True,
    progress: Callable[[int], None] | None = None,
) -> Manifest:
    """Write a capture of made-up traffic; the same arguments always give the same bytes.

    Args:
        target: a path, or a binary file open for writing; written in order, in bounded memory.
        formats: names out of `SCENARIOS`; all of them if not given. A raw capture has one stream,
            so it takes exactly one.
        size: about how many bytes to write, before compression; 10 MB if neither is given.
        messages: exactly how many frames to write. With `size`, whatever is reached first.
        seed: seed of all random choices.
        container: one of `CONTAINERS`.
        compression: one of `COMPRESSIONS`.
        faults: what happens to packets. A raw capture has no packets and accepts only `corruption`,
            which is then the probability that a message has a wrong bit.
        one_way: only what servers send was captured.
        connections: sessions of each kind at a time.
        symbols: number of instruments in the market data.
        checksums: whether TCP checksums are right, or left to a network card, as captures on the
            sending host show them; the latter is a third faster.
        progress: called now and then with the bytes written so far.

    Returns:
        What was written.

    Raises:
        OptionError: an argument has an impossible value.
        OSError: the file cannot be written.
    """
    faults = faults or Faults()
    chosen = list(SCENARIOS if formats is None else dict.fromkeys(formats))
    _check(chosen, container, compression, faults, size, messages, connections)
    if size is None and messages is None:
        size = _SIZE
    with contextlib.ExitStack() as opened:
        file = _opened(target, compression, opened)
        random = Random(f"{seed} faults")
        out: Target
        if container == "raw":
            out = RawFile(file, faults, random, one_way)
        else:
            out = PacketFile(file, faults, random, one_way, is_pcapng=container == "pcapng")
        stages: list[Stage] = []
        channels: list[Channel] = []
        sessions = [
            session
            for name in chosen
            for number in range(connections if container != "raw" else 1)
            for session in _sessions(name, number, seed, max(symbols, 1), stages, channels)
        ]
        for channel in channels:
            channel.is_checked = checksums
        _play(sessions, stages, out, size, messages, progress)
        out.close(channels, out.last_ns)
    return _manifest(out, channels, seed, container, compression)


_SIZE = 10_000_000
"""Default size in bytes."""
_DISCOVERY_PORT = 2888
_TCP_PORTS = {name: port for port, name in PORTS.items() if port != _DISCOVERY_PORT}
_PROGRESS = 4096
"""Bursts between two reports."""


def _check(
    chosen: list[str],
    container: str,
    compression: str,
    faults: Faults,
    size: int | None,
    messages: int | None,
    connections: int,
) -> None:
    unknown = [name for name in chosen if name not in SCENARIOS]
    if unknown or not chosen:
        what = ", ".join(map(repr, unknown)) or "nothing"
        raise OptionError(f"cannot generate {what}; there are {', '.join(SCENARIOS)}")
    for value, known, what in (
        (container, CONTAINERS, "container"),
        (compression, COMPRESSIONS, "compression"),
    ):
        if value not in known:
            raise OptionError(f"{what} must be one of {', '.join(known)}, not {value!r}")
    for name in ("reorder", "loss", "duplicates", "corruption", "cut", "offload", "zero"):
        share = getattr(faults, name)
        if not 0 <= share <= 1:
            raise OptionError(f"{name} is a share from 0 to 1, not {share}")
        if share and container == "raw" and name != "corruption":
            raise OptionError(f"{name} happens to packets, and a raw capture has none")
    if container == "raw" and len(chosen) > 1:
        raise OptionError("a raw capture is one stream: choose one format")
    if any(number is not None and number < 0 for number in (size, messages)) or connections < 1:
        raise OptionError("size and messages cannot be negative, and connections at least one")


def _opened(
    target: str | os.PathLike[str] | BinaryIO, compression: str, opened: contextlib.ExitStack
) -> BinaryIO:
    """The file to write to; what is opened here is closed with `opened`."""
    if isinstance(target, (str, os.PathLike)):
        file: BinaryIO = opened.enter_context(open(target, "wb"))  # noqa: SIM115
    else:
        file = target
    if compression == "gzip":
        # No name and no time in the gzip header, so that the same arguments give the same bytes.
        packed = gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0)
        return cast("BinaryIO", opened.enter_context(packed))
    if compression == "zstd":
        return cast("BinaryIO", opened.enter_context(ZstdFile(file, "wb")))
    return file


def _sessions(
    name: str, number: int, seed: int, symbols: int, stages: list[Stage], channels: list[Channel]
) -> Iterator[Iterator[Burst]]:
    """The sessions of one kind with one number; their channels and stages are noted."""
    place, connid = SCENARIOS.index(name), 1 + number
    # Sessions start one after the other, and none at the time of another.
    stage = Stage(Random(f"{seed} {name} {number}"), START_NS + 1_000_000 * number + 7_919 * place)
    stages.append(stage)

    def channel(format: str, client: int = 1, *, port: int = 0) -> Channel:
        host = f"10.{place}.{connid >> 8 & 255}.{connid & 255}"
        made = Channel(
            format,
            (host, 40_000 + client),
            (f"192.168.{place}.1", port or _TCP_PORTS[format]),
            is_udp=bool(port),
        )
        channels.append(made)
        return made

    def feed(encode: Encoder, **more: Any) -> Feed:
        day = dt.datetime.fromtimestamp(START_NS // 1_000_000_000, dt.UTC).date()
        return Feed(stage.random, encode, symbols, day, **more)

    if name in ENCODERS:
        kind = Kind(name, {"tibmsg": "TIBMSG", "tibrv": "TIBRVMSG", "qform": "QFORM"}[name])
        source = feed(ENCODERS[name], has_short_seq=name == "qform")
        yield market_session(stage, source, channel(name), kind)
    elif name == "tibmsg-in-tibrv":
        kind = Kind("tibrv", "TIBRVMSG", "tibmsg")
        yield market_session(stage, feed(carrier_encoder), channel("tibrv"), kind)
    elif name == "blaze":
        yield blaze_session(stage, channel("blaze"), connid)
    elif name == "qform-in-blaze":
        quotes = feed(quote_encoder(connid), front=4, has_short_seq=True, is_keyed=True)
        yield quote_session(stage, quotes, channel("blaze"), connid)
    elif name == "nais":
        yield nais_session(stage, channel("nais"))
    else:
        search = channel("nrep", port=_DISCOVERY_PORT)
        relayed = feed(feed_encoder, front=1) if name == "tibrv-in-nrep" else None
        yield nrep_session(stage, search, channel("nrep"), channel("nrep", 2), relayed)


def _play(
    sessions: list[Iterator[Burst]],
    stages: list[Stage],
    out: Target,
    size: int | None,
    messages: int | None,
    progress: Callable[[int], None] | None,
) -> None:
    """Write what all sessions send, in order of time, until there is enough."""
    waiting = []
    for number, session in enumerate(sessions):
        burst = next(session)
        waiting.append((burst.ts_ns, number, burst))
    heapq.heapify(waiting)
    left = messages
    is_over = left == 0
    written = 0
    while waiting and left != 0:
        _, number, burst = waiting[0]
        if out.wants(burst):
            if left is not None:
                burst, left = _limited(burst, left)
            out.write(burst)
            written += 1
            if progress is not None and written % _PROGRESS == 0:
                progress(out.size)
        following = next(sessions[number], None)
        if following is None:
            heapq.heappop(waiting)
        else:
            heapq.heapreplace(waiting, (following.ts_ns, number, following))
        if not is_over and size is not None and out.size >= size:
            is_over = True
            for stage in stages:
                stage.is_over = True
    if progress is not None:
        progress(out.size)


def _limited(burst: Burst, left: int) -> tuple[Burst, int]:
    """A burst cut to the number of frames still wanted, and how many are wanted after it."""
    count = 0
    for index, kind in enumerate(burst.kinds):
        if count == left:
            return burst._replace(parts=burst.parts[:index], kinds=burst.kinds[:index]), 0
        count += bool(kind.format)
    return burst, left - count


def _manifest(
    out: Target, channels: list[Channel], seed: int, container: str, compression: str
) -> Manifest:
    frames: dict[str, dict[str, int]] = {}
    nested: Counter[str] = Counter()
    for kind, count in out.frames.items():
        if kind.format:
            types = frames.setdefault(kind.format, {})
            types[kind.name] = types.get(kind.name, 0) + count
        for inner in kind.nested:
            nested[inner] += count
    return Manifest(
        seed,
        container,
        compression,
        out.size,
        out.packets,
        out.streams,
        out.first_ns,
        out.last_ns,
        {format: dict(sorted(types.items())) for format, types in sorted(frames.items())},
        dict(sorted(nested.items())),
        out.text_bytes,
        dict(sorted(out.faults.items())),
        dict(sorted(out.hit.items())),
        {channel.port: channel.format for channel in channels},
    )
