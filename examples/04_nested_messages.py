"""A TibMsg in a Rendezvous opaque in an NREP packet: found by looking inside."""

from __future__ import annotations

import wireloom

quote = {
    "format": "tibmsg",
    "fields": [{"name": "BID", "type": "real", "size": 8, "value": 175.92}],
}
inner = wireloom.from_dict(quote).encode()
opaque = {"name": "_data_", "type": "opaque", "value_hex": inner.hex()}
middle = wireloom.from_dict({"format": "tibrv", "fields": [opaque]}).encode()
packet = wireloom.from_dict(
    {
        "format": "nrep",
        "packet": "SOCKET_DATA",
        "socket_id": "a0a1a2a3a4a5a6a7a8a9",
        "data": middle.hex(),
    }
)

for found in wireloom.nested(wireloom.decode(packet.encode())):
    print(f"{found.path:14} {found.format:7} {found.message.to_dict()}")
