"""What can happen to packets in a bad network and a bad capture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from random import Random

from wireloom.generate.traffic.ippackets import Packet

__all__ = ["Disturber", "Faults", "disturb"]


@dataclass(frozen=True, slots=True)
class Faults:
    """The probability of each fault per packet, from 0 to 1."""

    reorder: float = 0.0
    loss: float = 0.0
    duplicates: float = 0.0
    corruption: float = 0.0
    """One bit is wrong, after `Packet.body`."""
    cut: float = 0.0
    """Only a part was captured."""
    offload: float = 0.0
    """A network card has joined segments to one longer than an MTU, whose checksum is bad."""
    zero: float = 0.0
    """The checksum is zero: a network card was to fill it in."""
    distance: int = 8
    """By how many packets a late or repeated one is delayed."""

    @property
    def is_any(self) -> bool:
        """Whether anything can happen at all."""
        kinds = (self.reorder, self.loss, self.duplicates, self.corruption, self.cut)
        return any((*kinds, self.offload, self.zero))


class Disturber:
    """A bad network and a bad capture: packets go in, and come out late, damaged or not at all."""

    def __init__(self, faults: Faults, random: Random) -> None:
        self._faults = faults
        self._random = random
        self._waiting: list[tuple[int, Packet]] = []
        self._number = 0
        self._now_ns = 0
        self.counts: Counter[str] = Counter()
        """How often each kind of fault happened."""

    def push(self, packet: Packet) -> tuple[list[Packet], bool]:
        """The packets captured now, and whether any byte of this packet is lost or wrong."""
        faults, random, number = self._faults, self._random, self._number
        self._number += 1
        self._now_ns = packet.ts_ns
        found: list[Packet] = []
        is_hit = False
        if random.random() < faults.loss:
            self.counts["loss"] += 1
            is_hit = True
        else:
            body = len(packet.data) - packet.body
            if random.random() < faults.corruption and body:
                data = bytearray(packet.data)
                data[packet.body + random.randrange(body)] ^= 1 << random.randrange(8)
                packet = replace(packet, data=bytes(data))
                self.counts["corruption"] += 1
                is_hit = True
            if faults.cut and body and random.random() < faults.cut:
                packet = packet.cut(packet.body + random.randrange(body))
                self.counts["cut"] += 1
                is_hit = True
            if random.random() < faults.duplicates:
                self._wait(number, packet)
                self.counts["duplicates"] += 1
            if random.random() < faults.reorder:
                self._wait(number, packet)
                self.counts["reorder"] += 1
            else:
                found.append(packet)
        if self._waiting:
            found += self._due(number)
        return found, is_hit

    def _wait(self, number: int, packet: Packet) -> None:
        self._waiting.append((number + self._random.randint(1, self._faults.distance), packet))

    def _due(self, number: int) -> list[Packet]:
        due = [packet for when, packet in self._waiting if when <= number]
        if due:
            self._waiting = [entry for entry in self._waiting if entry[0] > number]
        return [replace(packet, ts_ns=self._now_ns) for packet in due]

    def finish(self) -> list[Packet]:
        """What is still on its way."""
        return self._due(self._number + self._faults.distance)


def disturb(packets: Iterable[Packet], faults: Faults, random: Random) -> Iterator[Packet]:
    """The packets as a bad network and a bad capture show them; times stay ascending."""
    disturber = Disturber(faults, random)
    for packet in packets:
        yield from disturber.push(packet)[0]
    yield from disturber.finish()
