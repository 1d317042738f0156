"""A stream in pieces, damaged in the middle → frames, and an account of every byte."""

from __future__ import annotations

import wireloom

hello = wireloom.from_dict({"format": "nrep", "packet": "HELLO", "nonce": 0})
publish = wireloom.from_dict({"format": "nrep", "packet": "PUBLISH", "description": "echo"})
stream = hello.encode() + b"line noise" + publish.encode() + hello.encode()

# Bytes arrive in any pieces; the records do not depend on them.
pieces = [stream[i : i + 7] for i in range(0, len(stream), 7)]

total = 0
for record in wireloom.scan(pieces, "nrep"):
    total += record.length
    if isinstance(record, wireloom.Frame):
        message = wireloom.decode(record.data, record.format)
        print(f"{record.offset:4}  {message.type_name}")
    elif isinstance(record, wireloom.Problem):
        print(f"{record.offset:4}  {record.length} bytes are no frame: {record.reason}")

assert total == len(stream)  # each byte is in exactly one record
