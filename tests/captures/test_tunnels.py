"""Packets in packets: the common encapsulations are read, and the others are counted."""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
from itertools import product
from random import Random

import pytest

from wireloom import kernel as kernels
from wireloom.captures import Capture, ReassemblyLimits
from wireloom.errors import OptionError
from wireloom.generate import traffic
from wireloom.generate.traffic import START_NS, Packet, ethernet, ip, ipv4, ipv6, tcp, udp

IN4 = ("10.0.0.1", "10.0.0.2")
IN6 = ("fd00::1", "fd00::2")
OUT4 = ("192.0.2.1", "192.0.2.2")
OUT6 = ("2001:db8::1", "2001:db8::2")
TEXT = b"what is carried, however it is wrapped"


def inner(ends):
    return ip(*ends, 6, tcp(*ends, 40000, 7500, 1000, TEXT))


def frame(packet, kind=None):
    """An Ethernet frame around a packet, or with a type of its own."""
    if kind is None:
        return ethernet(packet)
    return bytes(range(2, 14)) + struct.pack(">H", kind) + packet


def number(packet):
    """The Ethernet type of an IP packet."""
    return 0x0800 if packet[0] >> 4 == 4 else 0x86DD


def ppp(packet):
    return struct.pack(">H", 0x21 if packet[0] >> 4 == 4 else 0x57) + packet


def pppoe(packet):
    body = ppp(packet)
    return frame(b"\x11\0\0\x07" + struct.pack(">H", len(body)) + body + bytes(9), 0x8864)


def mpls(packet, labels=2):
    words = [(16 + turn) << 12 | (turn == labels - 1) << 8 | 64 for turn in range(labels)]
    return struct.pack(f">{labels}I", *words) + packet


def gre(packet, flags=0, kind=None):
    head = struct.pack(">HH", flags, number(packet) if kind is None else kind)
    fields = sum(bool(flags & bit) for bit in (0x8000, 0x2000, 0x1000))
    return head + bytes(4 * fields) + packet


def geneve(packet):
    return b"\x02\0\x65\x58" + bytes(4) + bytes(8) + frame(packet)


def in_udp(port, payload):
    return frame(ip(*OUT4, 17, udp(*OUT4, 5555, port, payload)))


def outer(protocol):
    """An IPv4 packet of a protocol around it, and an IPv6 one."""
    return (
        lambda payload: frame(ipv4(*OUT4, protocol, payload)),
        lambda payload: frame(ipv6(*OUT6, protocol, payload)),
    )


GRE4, GRE6 = outer(47)
ERSPAN2 = bytes.fromhex("1000000000000000")
ERSPAN3 = b"\x20" + bytes(11)
ALWAYS = {
    "PPPoE": pppoe,
    "PPPoE in a VLAN": lambda p: frame(b"\0\x05\x88\x64" + pppoe(p)[14:], 0x8100),
    "MPLS": lambda p: frame(mpls(p), 0x8847),
    "MPLS, one label": lambda p: frame(mpls(p, 1), 0x8848),
    "Ethernet over MPLS": lambda p: frame(mpls(bytes(4) + frame(p)), 0x8847),
    "Ethernet over MPLS, no control word": lambda p: frame(mpls(frame(p)), 0x8847),
    "GRE": lambda p: GRE4(gre(p)),
    "GRE in IPv6": lambda p: GRE6(gre(p)),
    "GRE with key, checksum and number": lambda p: GRE4(gre(p, 0xB000)),
    "Ethernet in GRE": lambda p: GRE4(gre(frame(p), 0x2000, 0x6558)),
    "MPLS in GRE": lambda p: GRE4(gre(mpls(p), 0, 0x8847)),
    "PPTP": lambda p: GRE4(
        b"\x30\x81\x88\x0b" + struct.pack(">HHII", len(ppp(p)) + 2, 1, 1, 1) + b"\xff\x03" + ppp(p)
    ),
    "ERSPAN I": lambda p: GRE4(gre(frame(p), 0, 0x88BE)),
    "ERSPAN II": lambda p: GRE4(gre(ERSPAN2 + frame(p), 0x1000, 0x88BE)),
    "ERSPAN III": lambda p: GRE4(gre(ERSPAN3 + frame(p), 0x1000, 0x22EB)),
    "ERSPAN III, more": lambda p: GRE4(
        gre(ERSPAN3[:11] + b"\1" + bytes(8) + frame(p), 0x1000, 0x22EB)
    ),
    "IP in IP": lambda p: frame(ipv4(*OUT4, 4 if p[0] >> 4 == 4 else 41, p)),
    "IP in IPv6": lambda p: frame(ipv6(*OUT6, 4 if p[0] >> 4 == 4 else 41, p)),
    "EtherIP": lambda p: outer(97)[0](b"\x30\0" + frame(p)),
    "authenticated": lambda p: frame(
        ipv4(*OUT4, 51, bytes([4 if p[0] >> 4 == 4 else 41, 4]) + bytes(22) + p)
    ),
    "provider backbone": lambda p: frame(bytes(4) + frame(p), 0x88E7),
    "E-TAG": lambda p: frame(bytes(6) + struct.pack(">H", number(p)) + p, 0x893F),
    "GRE in GRE": lambda p: GRE4(gre(ipv4(*OUT4, 47, gre(p)))),
}
BY_OPTION = {
    "vxlan": lambda p: in_udp(4789, b"\x08" + bytes(7) + frame(p)),
    "geneve": lambda p: in_udp(6081, geneve(p)),
    "gtp": lambda p: in_udp(2152, b"\x30\xff" + struct.pack(">H", len(p)) + bytes(4) + p),
}
MORE_GTP = {
    "number": lambda p: in_udp(2152, b"\x32\xff\0\0" + bytes(4) + bytes(4) + p),
    "extension": lambda p: in_udp(2152, b"\x34\xff\0\0" + bytes(7) + b"\x85\1\0\0\0" + p),
}
NOT_READ = {
    "ESP": outer(50)[0](bytes(60)),
    "L2TP": outer(115)[0](bytes(60)),
    "GRE with a route": outer(47)[0](b"\x40\0\x08\0" + bytes(60)),
    "MACsec": frame(bytes(60), 0x88E5),
    "MPLS of what is not known": frame(mpls(b"\xf0" + bytes(60)), 0x8847),
    "compressed PPP": frame(b"\x11\0\0\x07\0\x2a\0\xfd" + bytes(40), 0x8864),
}


def capture(*frames, link_type=1):
    return traffic.pcap([Packet(START_NS, data) for data in frames], link_type=link_type)


@pytest.mark.parametrize("name", ALWAYS)
@pytest.mark.parametrize("ends", [IN4, IN6], ids=["IPv4", "IPv6"])
def test_packets_in_packets_are_read(read, name, ends):
    result = read(capture(ALWAYS[name](inner(ends))))
    assert result.only.data == TEXT
    assert result.damage == []
    src, dst = ends if ends is IN4 else ("[fd00::1]", "[fd00::2]")
    assert list(result.streams) == [f"tcp {src}:40000 > {dst}:7500 #1"]


@pytest.mark.parametrize("name", BY_OPTION)
def test_those_in_datagrams_are_read_by_option(read, name):
    data = capture(BY_OPTION[name](inner(IN4)))
    assert read(data, limits=ReassemblyLimits(tunnels=(name,))).only.data == TEXT
    # Without it they are datagrams as any other.
    assert next(iter(read(data).streams)).startswith("udp 192.0.2.1:5555")
    others = tuple(each for each in BY_OPTION if each != name)
    assert read(data, limits=ReassemblyLimits(tunnels=others)).only.data != TEXT


@pytest.mark.parametrize("name", MORE_GTP)
def test_headers_of_gtp_may_be_longer(read, name):
    limits = ReassemblyLimits(tunnels=("gtp",))
    assert read(capture(MORE_GTP[name](inner(IN4))), limits=limits).only.data == TEXT


def test_there_is_no_other_tunnel():
    with pytest.raises(OptionError, match="there are vxlan, geneve, gtp"):
        ReassemblyLimits(tunnels=("teredo",))


@pytest.mark.parametrize("name", NOT_READ)
def test_what_is_not_read_is_counted(read, name):
    result = read(capture(NOT_READ[name], ethernet(inner(IN4))))
    assert result.only.data == TEXT
    assert result.left_out == {"encapsulated": (1, len(NOT_READ[name]))}
    assert result.damage == []


def test_packets_and_bytes_of_other_traffic_are_counted(read):
    arp = frame(bytes(46), 0x0806)
    icmp = ethernet(ipv4(*OUT4, 1, bytes(8)))
    found = read(capture(arp, icmp, icmp))
    assert found.left_out == {"not_ip": (1, len(arp)), "other_protocol": (2, 2 * len(icmp))}


def test_packets_wrapped_too_often_are_not_read(read):
    packet = inner(IN4)
    for _ in range(20):
        packet = ipv4(*OUT4, 4, packet)
    result = read(capture(ethernet(packet)))
    assert result.streams == {}
    assert result.capture.packets.tunnel == 1


@pytest.mark.parametrize("name", [*ALWAYS, *BY_OPTION])
def test_every_cut_is_told_or_a_gap(read, name):
    whole = {**ALWAYS, **BY_OPTION}[name](inner(IN4))
    limits = ReassemblyLimits(tunnels=tuple(BY_OPTION))
    cuts = [Packet(START_NS, whole).cut(size) for size in range(0, len(whole), 3)]
    result = read(traffic.pcap(cuts), limits=limits)
    counts = result.capture.packets
    kinds = (counts.tcp, counts.udp, counts.other, counts.not_ip, counts.tunnel, counts.damaged)
    assert sum(kinds) == len(cuts)
    for seen in result.streams.values():
        assert seen.counts.is_balanced


def test_ppp_links(read):
    for packet in (inner(IN4), inner(IN6)):
        short = bytes([ppp(packet)[1]]) + packet
        for data in (ppp(packet), b"\xff\x03" + ppp(packet), short):
            assert read(capture(data, link_type=9)).only.data == TEXT
        assert read(capture(pppoe(packet)[14:], link_type=51)).only.data == TEXT
        hdlc = b"\x0f\0" + struct.pack(">H", number(packet)) + packet
        assert read(capture(hdlc, link_type=104)).only.data == TEXT


def test_wireless_links(read):
    for packet, is_quality, is_bridged in product((inner(IN4), inner(IN6)), (0, 1), (0, 1)):
        control = bytes([0x88 if is_quality else 0x08, 3 if is_bridged else 1])
        head = control + bytes(22) + bytes(6 * is_bridged) + bytes(2 * is_quality)
        data = head + b"\xaa\xaa\3\0\0\0" + struct.pack(">H", number(packet)) + packet
        assert read(capture(data, link_type=105)).only.data == TEXT
        radio = b"\0\0\x0c\0" + bytes(8)
        assert read(capture(radio + data + bytes(4), link_type=127)).only.data == TEXT
        # The same with bytes between the two headers, as the flags in the radio header say.
        padding = bytes(-len(head) % 4)
        for radio in (
            b"\0\0\x09\0\2\0\0\0\x20",
            b"\0\0\x11\0\3\0\0\0" + bytes(8) + b"\x20",
            b"\0\0\x19\0\3\0\0\x80" + bytes(4 + 4 + 8) + b"\x20",
        ):
            padded = radio + head + padding + data[len(head) :]
            assert read(capture(padded, link_type=127)).only.data == TEXT
        secret = bytes([data[0], data[1] | 0x40]) + data[2:]
        assert read(capture(secret, link_type=105)).capture.packets.tunnel == 1
    beacon = b"\x80\0" + bytes(60)
    assert read(capture(beacon, link_type=105)).capture.packets.not_ip == 1


@pytest.mark.parametrize("order", "<>")
def test_netfilter_logs(read, order):
    for packet in (inner(IN4), inner(IN6)):
        data = b"\x02\0\0\0" + struct.pack(order + "HHI", 8, 1, 0)
        data += struct.pack(order + "HHBxxx", 5, 10, 0)
        data += struct.pack(order + "HH", 4 + len(packet), 9) + packet
        assert read(capture(data, link_type=239)).only.data == TEXT


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_another_program_reads_the_same(tmp_path):
    # It does not guess what MPLS carries.
    skipped = {"Ethernet over MPLS", "Ethernet over MPLS, no control word"}
    names = [name for name in ALWAYS if name not in skipped]
    path = tmp_path / "wrapped.pcap"
    path.write_bytes(capture(*(ALWAYS[name](inner(IN4)) for name in names)))
    command = ["tshark", "-r", str(path), "-T", "fields", "-e", "tcp.payload"]
    found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    lines = found.stdout.splitlines()
    assert len(lines) == len(names)
    unlike = [name for name, line in zip(names, lines, strict=True) if line != TEXT.hex()]
    assert unlike == []


@pytest.mark.skipif(not kernels.is_compiled(), reason="the kernel is not compiled")
@pytest.mark.parametrize("link_type", [1, 9, 51, 104, 105, 113, 127, 239])
def test_damaged_ones_are_the_same_compiled_and_interpreted(collect, link_type):
    random = Random(link_type)
    whole = [
        make(inner(ends)) for make in (*ALWAYS.values(), *BY_OPTION.values()) for ends in (IN4, IN6)
    ]
    whole += [*NOT_READ.values(), inner(IN4), ppp(inner(IN4))]
    frames = []
    for data in whole * 4:
        raw = bytearray(data if random.random() < 0.8 else data[random.randrange(20) :])
        for _ in range(random.randrange(4)):
            raw[random.randrange(min(len(raw), 90))] = random.choice(
                (0, 1, 4, 47, 255, random.randrange(256))
            )
        frames.append(
            bytes(raw[: random.choice((len(raw), len(raw), random.randrange(len(raw)) + 1))])
        )
    data = capture(*frames, link_type=link_type)
    limits = ReassemblyLimits(tunnels=tuple(BY_OPTION))
    one, other = (
        collect(Capture(io.BytesIO(data), limits=limits, kernel=kernel)).same()
        for kernel in (kernels.load(), kernels.interpreted())
    )
    assert one == other


READ_LINKS = (0, 1, 9, 12, 14, 50, 51, 101, 104, 105, 108, 113, 127, 228, 229, 239, 276)


@pytest.mark.parametrize("link", READ_LINKS)
def test_a_link_type_that_is_read_is_not_called_unknown(read, link):
    assert "link_type" not in [each.code for each in read(capture(TEXT, link_type=link)).damage]
