"""pcap → reassembled streams → frames: compared with dpkt and scapy; one-way cost, memory, parts.

dpkt and scapy only go as far as the TCP payload of each packet, collected in a list per flow;
nothing puts it in order. First all must agree on every flow's bytes, then they take turns.
Generated captures of all formats show what the generator, cutting one file into parts and the
exchange of packets between readers cost.
"""

from __future__ import annotations

import gc
import io
import json
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from benchmarks.foreign import write_foreign
from wireloom.captures import Capture, PacketRange, StreamData, packet_ranges
from wireloom.captures.exchange import Part, route
from wireloom.generate import DICTIONARY, PORTS, Faults, generate
from wireloom.tabulate import tabulate

DPKT_GOAL = 10
SCAPY_GOAL = 100
ONE_WAY_GOAL = 1.2
"""Cost per packet at 500,000 packets relative to that at 50,000."""
MEMORY_GOAL = 500
"""Resident megabytes while 2 GB are read."""

FOREIGN_GOAL = 2
"""CPU time of finding out what is in a capture of other protocols, as `wireloom stat` does,
relative to reading it. With all tables every byte is copied into rows: that has no goal."""

_ETHERNET = bytes.fromhex("0200000000010200000000020800")
_START = 1_700_000_000


def records(
    flows: int, packets: int, size: int, *, start: int = 0, loss: float = 0.0, seed: int = 0
) -> bytes:
    """pcap records of `packets` segments of each flow, interleaved; `start` is the first number.

    Checksums are left out, as hosts leave them to the network card.
    """
    random = Random(seed)
    payload = random.randbytes(size)
    ip = struct.pack(">BBHIBBH", 0x45, 0, 40 + size, 0x4000, 64, 6, 0)
    found = []
    for number in range(start, start + packets):
        for flow in range(flows):
            if loss and random.random() < loss:
                continue
            ts = number * flows + flow
            length = 54 + size
            head = struct.pack("<IIII", _START + ts // 1_000_000, ts % 1_000_000, length, length)
            addresses = struct.pack(">4B4B", 10, 0, flow >> 8, flow & 255, 10, 1, 0, 1)
            seq = number * size & 0xFFFFFFFF
            tcp = struct.pack(">HHIIBBHHH", 1024 + flow, 80, seq, 0, 0x50, 0x18, 0xFFFF, 0, 0)
            found.append(head + _ETHERNET + ip + addresses + tcp + payload)
    return b"".join(found)


def file_header() -> bytes:
    return struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)


def wireloom_streams(path: Path) -> dict[str, int]:
    found: dict[str, int] = {}
    for event in Capture(path):
        if isinstance(event, StreamData):
            key = f"{event.stream.src}:{event.stream.src_port}"
            found[key] = found.get(key, 0) + len(event.data)
    return found


def dpkt_payloads(path: Path) -> dict[str, int]:
    import dpkt

    found: dict[tuple[bytes, int, bytes, int], list[bytes]] = {}
    with path.open("rb") as file:
        for _, data in dpkt.pcap.Reader(file):
            frame = dpkt.ethernet.Ethernet(data)
            packet = frame.data
            if isinstance(packet, dpkt.ip.IP) and isinstance(packet.data, dpkt.tcp.TCP):
                tcp = packet.data
                key = packet.src, tcp.sport, packet.dst, tcp.dport
                found.setdefault(key, []).append(tcp.data)
    return {
        f"{'.'.join(map(str, src))}:{port}": sum(map(len, parts))
        for (src, port, _, _), parts in found.items()
    }


def scapy_payloads(path: Path) -> dict[str, int]:
    from scapy.layers.inet import IP, TCP
    from scapy.layers.l2 import Ether  # noqa: F401  (registers the link type)
    from scapy.utils import PcapReader

    found: dict[str, list[bytes]] = {}
    with PcapReader(str(path)) as reader:
        for packet in reader:
            if TCP in packet:
                key = f"{packet[IP].src}:{packet[TCP].sport}"
                found.setdefault(key, []).append(bytes(packet[TCP].payload))
    return {key: sum(map(len, parts)) for key, parts in found.items()}


def seconds(job: Callable[[Path], object], path: Path) -> float:
    gc.collect()
    began = time.process_time()
    job(path)
    return time.process_time() - began


def peers(folder: Path, quick: bool) -> list[dict[str, Any]]:
    """Packets per second of all three, on market-data-like and on full segments."""
    rows = []
    for what, size in (("200-byte segments", 200), ("1460-byte segments", 1460)):
        counts = {"wireloom": 40_000 if quick else 400_000, "dpkt": 20_000, "scapy": 2_000}
        if not quick:
            counts |= {"dpkt": 100_000, "scapy": 10_000}
        paths = {}
        for name, count in counts.items():
            paths[name] = folder / f"{name}.pcap"
            paths[name].write_bytes(file_header() + records(20, count // 20, size))
        readers = {"wireloom": wireloom_streams, "dpkt": dpkt_payloads, "scapy": scapy_payloads}
        same = paths["scapy"]
        assert wireloom_streams(same) == dpkt_payloads(same) == scapy_payloads(same)
        times: dict[str, list[float]] = {name: [] for name in readers}
        for _ in range(3 if quick else 5):
            for name, reader in readers.items():
                spent = seconds(reader, paths[name])
                times[name].append(spent / counts[name])
        for name in readers:
            ratios = [t / w for t, w in zip(times[name], times["wireloom"], strict=True)]
            rows.append(
                {
                    "what": what,
                    "implementation": name,
                    "packets_per_second": round(1 / median(times[name])),
                    "megabytes_per_second": round((70 + size) / median(times[name]) / 1e6, 1),
                    "wireloom_is_times_faster": round(median(ratios), 1),
                }
            )
    return rows


def one_way(folder: Path, quick: bool) -> dict[str, Any]:
    """One direction without any acknowledgement: nanoseconds per packet, short and long."""
    path = folder / "oneway.pcap"
    sizes = (50_000, 500_000)
    found: dict[str, Any] = {}
    for loss in (0.0, 0.001):
        cost = {count: [] for count in sizes}  # type: dict[int, list[float]]
        files = {}
        for count in sizes:
            files[count] = path.with_suffix(f".{count}")
            files[count].write_bytes(file_header() + records(1, count, 200, loss=loss))
        for _ in range(3 if quick else 7):
            for count in sizes:
                # The same total of packets for both, so that both run under the same conditions.
                turns = sizes[-1] // count
                spent = sum(seconds(wireloom_streams, files[count]) for _ in range(turns))
                cost[count].append(spent / turns / count * 1e9)
        name = "with 0.1 % lost" if loss else "complete"
        found[name] = {f"ns_per_packet_{count}": round(median(cost[count])) for count in sizes}
        pairs = zip(cost[sizes[1]], cost[sizes[0]], strict=True)
        found[name]["ratio"] = round(median(long / short for long, short in pairs), 3)
    return found


def endless(total: int, loss: float) -> Iterator[bytes]:
    """A capture of `total` bytes: a block of records, repeated with new sequence numbers."""
    yield file_header()
    flows, packets, size = 16, 100, 1460
    block = bytearray(records(flows, packets, size))
    width = len(block) // (flows * packets)
    random = Random(1)
    for turn in range(total // len(block)):
        numbers = [n for n in range(turn * packets, (turn + 1) * packets) for _ in range(flows)]
        for byte in range(4):
            shift = 24 - 8 * byte
            block[16 + 38 + byte :: width] = bytes(n * size >> shift & 255 for n in numbers)
        data = bytes(block)
        if loss:
            keep = (i for i in range(flows * packets) if random.random() >= loss)
            data = b"".join(data[i * width : (i + 1) * width] for i in keep)
        yield data


_CHILD = """
import json, resource, sys, time
from wireloom.captures import Capture, Gap, StreamData, StreamEnd
from wireloom.columnar.framing import FrameScanner
ports = {int(port): name for port, name in json.loads(sys.argv[1]).items()}
options = {"qform": {"dictionary": sys.argv[2]}}
total = gaps = frames = 0
scanners = {}
for event in Capture(sys.stdin.buffer):
    if isinstance(event, StreamData):
        total += len(event.data)
        stream = event.stream
        name = ports.get(stream.src_port) or ports.get(stream.dst_port)
        if name and stream.number not in scanners:
            scanners[stream.number] = FrameScanner(name, **options.get(name, {}))
        if name:
            frames += sum(batch.count for batch in scanners[stream.number].feed(event.data))
    elif isinstance(event, (Gap, StreamEnd)):
        gaps += event.length if isinstance(event, Gap) else 0
        if event.stream.number in scanners:
            frames += sum(batch.count for batch in scanners.pop(event.stream.number).close())
if sys.platform == "linux":
    # What getrusage gives includes the process that started this one.
    status = open("/proc/self/status").read()
    peak = int(status.partition("VmHWM:")[2].split()[0]) * 1024
else:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"megabytes": round(peak / 1e6), "payload": total, "gap": gaps,
                  "frames": frames, "seconds": round(time.process_time(), 2)}))
"""


def reading(feed: Callable[[BinaryIO], object], ports: dict[str, str]) -> dict[str, Any]:
    """The report of a process that reads the capture which `feed` writes into a pipe."""
    command = [sys.executable, "-c", _CHILD, json.dumps(ports), DICTIONARY]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        feed(child.stdin)
        child.stdin.close()
        found: dict[str, Any] = json.load(io.TextIOWrapper(child.stdout))
    return found


def memory(quick: bool) -> dict[str, Any]:
    """Peak resident memory of a process that reads a large capture from a pipe."""
    total = 200_000_000 if quick else 2_000_000_000
    found = {}
    for name, loss in (("complete", 0.0), ("with 1 % lost", 0.01)):

        def feed(pipe: BinaryIO, loss: float = loss) -> None:
            for part in endless(total, loss):
                pipe.write(part)

        found[name] = reading(feed, {})
    return found


def generated(folder: Path, quick: bool) -> dict[str, Any]:
    """Traffic of all formats with faults: generated, framed, cut into parts, exchanged."""
    total = 50_000_000 if quick else 500_000_000
    manifests = []
    faults = Faults(reorder=0.01, loss=0.001, duplicates=0.01, corruption=0.001)
    ports = {str(port): name for port, name in PORTS.items()}

    def feed(pipe: BinaryIO) -> None:
        manifests.append(generate(pipe, size=total, faults=faults))

    decoded = reading(feed, ports)
    (manifest,) = manifests
    hit = sum(manifest.hit.values())
    # Damage can produce false frames, but never hides a frame that it did not touch.
    assert decoded["frames"] >= manifest.messages - hit, (decoded, manifest)
    path = folder / "generated.pcap"
    began = time.process_time()
    made = generate(path, size=total, container="pcap")
    rates = {"generate": made.size / (time.process_time() - began) / 1e6}
    for name, job in (
        ("one pass", lambda: sum(1 for _ in Capture(path))),
        ("cut into 16 parts", lambda: packet_ranges(path, 16)),
        ("route to 8 parts", lambda: sum(b.num_rows for b in route(PacketRange(str(path)), 0, 8))),
        ("route to 1 part and read", lambda: _exchange(path)),
    ):
        began = time.process_time()
        job()
        rates[name] = made.size / (time.process_time() - began) / 1e6
    return {
        "memory": decoded | {"sent": manifest.messages, "hit": hit, "bytes": manifest.size},
        "megabytes_per_second": {name: round(rate) for name, rate in rates.items()},
    }


def _exchange(path: Path) -> int:
    rows = route(PacketRange(str(path)), 0, 1)
    return sum(1 for _ in Part(rows, [str(path)], 0, 1))


def foreign(folder: Path, quick: bool) -> dict[str, float]:
    """What looking at traffic of other protocols costs, relative to reading it alone."""
    path = folder / "foreign.pcap"
    write_foreign(path, 20_000_000 if quick else 100_000_000)
    found: dict[str, list[float]] = {"the tables of stat": [], "all tables": []}
    for _ in range(3 if quick else 7):
        alone = seconds(lambda path: sum(1 for _ in Capture(path)), path)
        for name, tables in zip(found, (("frames", "gaps", "accounting"), None), strict=True):
            chosen = {} if tables is None else {"tables": tables}
            spent = seconds(lambda path, more=chosen: sum(1 for _ in tabulate(path, **more)), path)
            found[name].append(spent / alone)
    return {name: round(median(ratios), 2) for name, ratios in found.items()}


def main(quick: bool) -> dict[str, Any]:
    with TemporaryDirectory() as name:
        folder = Path(name)
        rows = peers(folder, quick)
        way = one_way(folder, quick)
        own = generated(folder, quick)
        others = foreign(folder, quick)
    used = memory(quick) | {"generated, with faults": own.pop("memory")}
    print(f"{'':20} {'':10} {'packets/s':>12} {'MB/s':>8} {'wireloom is':>12}")
    for row in rows:
        print(
            f"{row['what']:20} {row['implementation']:10} {row['packets_per_second']:12,} "
            f"{row['megabytes_per_second']:8,.0f} {row['wireloom_is_times_faster']:11.1f}x"
        )
    for name, cost in way.items():
        print(f"one way, {name}: {cost}")
    for name, cost in used.items():
        print(f"memory, {name}: {cost}")
    for name, rate in own["megabytes_per_second"].items():
        print(f"{name}: {rate} MB/s of one core")
    for name, ratio in others.items():
        print(f"other protocols, {name}: {ratio} times the CPU of reading alone")
    ratios: dict[str, float] = {}
    for row in rows:
        key = row["implementation"]
        ratios[key] = min(ratios.get(key, 1e9), row["wireloom_is_times_faster"])
    passed = (
        ratios["dpkt"] >= DPKT_GOAL
        and ratios["scapy"] >= SCAPY_GOAL
        and all(cost["ratio"] <= ONE_WAY_GOAL for cost in way.values())
        and all(cost["megabytes"] <= MEMORY_GOAL for cost in used.values())
        and others["the tables of stat"] <= FOREIGN_GOAL
    )
    print(f"the goals are {'reached' if passed else 'missed'}")
    return {
        "passed": passed,
        "peers": {name: version(name) for name in ("dpkt", "scapy")},
        "rows": rows,
        "one_way": way,
        "memory": used,
        "generated": own,
        "foreign": others,
    }


if __name__ == "__main__":
    main("--quick" in sys.argv)
