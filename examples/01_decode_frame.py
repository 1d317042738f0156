"""Bytes → a message, its fields, JSON, and the same bytes again."""

from __future__ import annotations

import wireloom

data = bytes.fromhex("00044433221108000000040000006563686f")

message = wireloom.decode(data)  # the format is detected
print(message.format, message.type_name, message.to_dict())

# The way back, from the message or from its JSON, gives the same bytes.
assert message.encode() == data
assert wireloom.from_dict(message.to_dict()) == message

# Where each field lies in the bytes.
for depth, node in message.outline().walk():
    print(f"{node.offset:4} {node.length:4}  {'  ' * depth}{node.name} = {node.value}")

# A message that cannot be read says why and where.
try:
    wireloom.decode(data[:-1], "nrep")
except wireloom.WireloomError as error:
    print("cut off:", error)
