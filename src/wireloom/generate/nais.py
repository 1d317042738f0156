"""NAIS: a board that sends readings and prints, and a client that commands it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random

from wireloom.formats.nais import CommandId, NaisPacket, NaisType
from wireloom.generate.market import steps
from wireloom.generate.schemas import BINDINGS, registry
from wireloom.generate.templates import template
from wireloom.generate.wire import CLIENT, SERVER, Burst, Channel, Kind, Stage

__all__ = ["nais_session"]

_READING, _LED = BINDINGS
_KINDS = {
    code: Kind("nais", registry().name_of(code) or "") for code in (*range(1, 7), _READING, _LED)
}
_TEXT = Kind("", "")
_VARINTS = [bytes((number & 127 | 128, number >> 7)) for number in range(128, 16_384)]
"""Numbers that take two bytes: sequence numbers wrap around within them."""
_SECOND = 1_000_000_000


def _frame(code: int, message: dict[str, object]) -> bytes:
    return NaisPacket.from_message(code, message, types=registry()).encode()


def nais_session(stage: Stage, channel: Channel) -> Iterator[Burst]:
    """A board (the server of the line) that sends readings; some commands, each acknowledged."""
    random = stage.random
    taken, value, past = 0x0102030405060708, 7654.25, [1234.5, 2345.75, 20.5, 20.25, 21.0]
    reading = template(
        _frame(
            _READING,
            {
                "sensor": 0x5A3C7B01,
                "taken_us": taken,
                "value": value,
                "unit": "degC",
                "history": past,
            },
        ),
        [
            (struct.pack("<I", 0x5A3C7B01), "I"),
            (struct.pack("<Q", taken), "Q"),
            (struct.pack("<f", value), "f"),
            (struct.pack("<f", past[0]), "f"),
            (struct.pack("<f", past[1]), "f"),
        ],
        "<",
    )
    seq = 0x2AAA
    mark = _VARINTS[seq - 128]
    led = template(
        _frame(_LED, {"seq": seq, "rgb": 0x5A3C7B01, "blink": True}),
        [(mark, "2s"), (struct.pack("<I", 0x5A3C7B01), "I")],
        "<",
    )
    ack = template(_frame(NaisType.ACK, {"id": _LED, "seq": seq, "status": 0}), [(mark, "2s")])
    values = steps(lambda: random.gauss(21, 2), 2039)
    gaps = steps(lambda: int(random.expovariate(1 / 1_200_000)) + 50_000, 1013)
    sizes = steps(lambda: random.randint(4, 40), 509)
    chances = steps(random.random, 1021)
    now = stage.start_ns
    for code, message in _opening(random):
        yield Burst(now, channel, CLIENT, [_frame(code, message)], [_KINDS[code]])
        answer = _frame(NaisType.ACK, {"id": code})
        yield Burst(now + 300_000, channel, SERVER, [answer], [_KINDS[NaisType.ACK]])
        now += 1_000_000
    number = 0
    while not stage.is_over:
        parts: list[bytes] = []
        kinds: list[Kind] = []
        chance = next(chances)
        if chance < 0.2:
            seconds = now / _SECOND % 86_400
            parts.append(b"[%10.3f] loop %d, heap %d free\r\n" % (seconds, number, 41_000))
            kinds.append(_TEXT)
        count = next(sizes)
        taken = now // 1000
        last = next(values)
        parts += [
            reading(sensor, taken, next(values), last, next(values)) for sensor in range(count)
        ]
        kinds += [_KINDS[_READING]] * count
        if chance > 0.97:
            event = {"id": 3, "svals": ["door"], "fvals": [last], "ivals": [number & 0xFF]}
            parts.append(_frame(NaisType.EVENT, event))
            kinds.append(_KINDS[NaisType.EVENT])
        yield Burst(now, channel, SERVER, parts, kinds)
        now += next(gaps)
        if chance < 0.3:
            mark = _VARINTS[number % len(_VARINTS)]
            number += 1
            asked = [led(mark, number * 0x010305 & 0xFFFFFF)]
            yield Burst(now, channel, CLIENT, asked, [_KINDS[_LED]])
            now += 250_000
            yield Burst(now, channel, SERVER, [ack(mark)], [_KINDS[NaisType.ACK]])


def _opening(random: Random) -> list[tuple[int, dict[str, object]]]:
    board = f"board-{random.randrange(1000)}"
    return [
        (NaisType.CONFIG, {"network": "_tcp_", "board": board, "host": "hub.example"}),
        (NaisType.COMMAND, {"id": int(CommandId.GET_CONFIG), "seq": 1}),
    ]
