"""One canonical packet of every type and flag form, for demos, docs and tests."""

from __future__ import annotations

from wireloom.formats.nrep.ids import ZERO_ID, app_id
from wireloom.formats.nrep.packets import (
    Discover,
    DiscoverInstances,
    DiscoverReply,
    Hello,
    InstanceReply,
    NrepPacket,
    OpenSocket,
    Publish,
    PublishReply,
    SocketControl,
    SocketData,
    SocketFlags,
)

__all__ = ["CERTIFICATE", "SAMPLES"]

CERTIFICATE = bytes.fromhex(
    "3082011e3081c6a00302010202021234300a06082a8648ce3d04030230193117301506035504030c0e6e7265"
    "702d746573742d70323536301e170d3231303130313030303030305a170d3431303130313030303030305a30"
    "193117301506035504030c0e6e7265702d746573742d703235363059301306072a8648ce3d020106082a8648"
    "ce3d03010703420004c60247178251ec8769c23c8ac9d3da6a904eecca513e3006c5b15c0f4fa5ef68968669"
    "8cc32f8a9204d86a5f86e574195c3899820a2f80c3217f93b84260a148300a06082a8648ce3d040302034700"
    "30440220367951d9d058a0403f038834ea8c35c5611f3df9214d1b267188d143cc55154402207906283a3974"
    "9f74c68228956b829c66d24d9dd6443fd116283ff4a237c12003"
)
"""A self-signed P-256 certificate for CN=nrep-test-p256; its key was thrown away."""

_NONCE = 0x01020304
_INSTANCE = bytes.fromhex("b0b1b2b3b4b5b6b7b8b9")
_OTHER = bytes.fromhex("c0c1c2c3c4c5c6c7c8c9")
_SOCKET = bytes.fromhex("a0a1a2a3a4a5a6a7a8a9")


def _control(
    flags: int, nonce: int = 0, socket: bytes = _SOCKET, instance: bytes | None = None
) -> SocketControl:
    return SocketControl(
        nonce=nonce, socket_id=socket, flags=SocketFlags(flags), instance_id=instance
    )


_PACKETS: dict[str, NrepPacket] = {
    "discover": Discover(nonce=_NONCE),
    "discover reply, TLS": DiscoverReply(nonce=_NONCE, tcp_port=6000, x509=CERTIFICATE),
    "discover reply, no TLS": DiscoverReply(nonce=_NONCE, tcp_port=6543),
    "hello": Hello(),
    "publish": Publish(nonce=_NONCE, description="echo"),
    "publish reply": PublishReply(
        nonce=_NONCE, success=1, app_id=app_id("echo"), instance_id=_INSTANCE
    ),
    "publish reply, failed": PublishReply(
        nonce=_NONCE, success=0, app_id=ZERO_ID, instance_id=ZERO_ID
    ),
    "discover app instances": DiscoverInstances(nonce=_NONCE, app_id=app_id("echo")),
    "app instance reply": InstanceReply(nonce=_NONCE, instance_ids=(_INSTANCE, _OTHER)),
    "app instance reply, none": InstanceReply(nonce=_NONCE),
    "open socket": OpenSocket(nonce=_NONCE, instance_id=_INSTANCE),
    "socket control, open ack": _control(SocketFlags.OPEN_ACK, _NONCE),
    "socket control, no such instance": _control(
        SocketFlags.OPEN_ACK | SocketFlags.CLOSE, _NONCE, ZERO_ID
    ),
    "socket control, open request": _control(SocketFlags.OPEN_REQUEST, instance=_INSTANCE),
    "socket control, accept": _control(SocketFlags.ACCEPT),
    "socket control, refuse": _control(SocketFlags.REFUSE),
    "socket control, ready": _control(SocketFlags.READY),
    "socket control, close": _control(SocketFlags.CLOSE),
    "socket data": SocketData(socket_id=_SOCKET, data=b"hello\n"),
    "socket data, empty": SocketData(socket_id=_SOCKET),
}

SAMPLES: dict[str, bytes] = {name: packet.encode() for name, packet in _PACKETS.items()}
"""Bytes by a name for people."""
