"""Our reassembled streams against those of tshark, on made-up traffic."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from wireloom.captures import Capture, StreamData
from wireloom.testing import traffic
from wireloom.testing.traffic import Conversation, Faults, disturb

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed"),
]


def follow(path: Path, number: int) -> tuple[bytes, bytes]:
    """Both directions of a connection, as tshark puts them together."""
    command = ["tshark", "-r", str(path), "-q", "-z", f"follow,tcp,raw,{number}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    sides = [bytearray(), bytearray()]
    for line in done.stdout.splitlines():
        if line.strip() and all(c in "0123456789abcdef" for c in line.strip()):
            sides[line.startswith("\t")] += bytes.fromhex(line.strip())
    return bytes(sides[0]), bytes(sides[1])


def streams(path: Path) -> list[bytes]:
    found: dict[str, bytearray] = {}
    for event in Capture(path):
        if isinstance(event, StreamData):
            found.setdefault(event.stream.name, bytearray()).extend(event.data)
    return [bytes(data) for data in found.values()]


@pytest.mark.parametrize("make", [traffic.pcap, traffic.pcapng])
@pytest.mark.parametrize("seed", range(4))
def test_streams_equal_those_of_tshark(tmp_path: Path, make, seed):
    random = Random(seed)
    talk = Conversation(
        "10.0.0.1:1000",
        "10.0.0.2:2000",
        first_seq=(2**32 - 3000, random.randrange(2**32)),
        mss=500,
    )
    sent, answered = random.randbytes(9000), random.randbytes(5000)
    faults = Faults(reorder=0.2, duplicate=0.2, distance=4)
    packets = list(talk.open())
    # One direction after the other: tshark gives a hole up once the other side has acknowledged it.
    packets += disturb(talk.send(sent), faults, random)
    packets += disturb(talk.answer(answered), faults, random)
    packets += talk.close()
    path = tmp_path / "capture"
    path.write_bytes(make(packets))
    assert streams(path) == list(follow(path, 0)) == [sent, answered]
