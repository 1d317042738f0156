"""Build packets and capture files byte by byte, for tests and for made-up traffic.

Nothing here is shared with `wireloom.captures`, so that a mistake cannot hide on both sides.

>>> talk = Conversation("10.0.0.1:1234", "10.0.0.2:80", first_seq=(1000, 5000))
>>> packets = [*talk.open(), *talk.send(b"hello"), *talk.answer(b"world"), *talk.close()]
>>> len(packets), len(pcap(packets))
(7, 556)
"""

from __future__ import annotations

from wireloom.generate.traffic.containers import (
    block,
    interface_block,
    option,
    packet_block,
    pcap,
    pcap_header,
    pcap_record,
    pcapng,
    section_block,
    simple_block,
)
from wireloom.generate.traffic.conversation import Conversation
from wireloom.generate.traffic.faults import Disturber, Faults, disturb
from wireloom.generate.traffic.ippackets import (
    ACK,
    FIN,
    LINKS,
    PSH,
    RST,
    START_NS,
    SYN,
    Packet,
    checksum,
    ethernet,
    fragments4,
    fragments6,
    ip,
    ipv4,
    ipv6,
    tcp,
    udp,
)

__all__ = [
    "ACK",
    "FIN",
    "LINKS",
    "PSH",
    "RST",
    "START_NS",
    "SYN",
    "Conversation",
    "Disturber",
    "Faults",
    "Packet",
    "block",
    "checksum",
    "disturb",
    "ethernet",
    "fragments4",
    "fragments6",
    "interface_block",
    "ip",
    "ipv4",
    "ipv6",
    "option",
    "packet_block",
    "pcap",
    "pcap_header",
    "pcap_record",
    "pcapng",
    "section_block",
    "simple_block",
    "tcp",
    "udp",
]
