"""Frames → tables at compiled speed: Arrow record batches of what the object path would give.

>>> from wireloom.columnar import decode_bytes
>>> from wireloom.formats import tibmsg
>>> data = tibmsg.build({"SYM": "ABC", "BIDSIZE": 10}).encode()
>>> for table, batch in decode_bytes(data, "tibmsg", select={"fields": ["name", "value_int"]}):
...     if table == "fields":
...         print(batch.to_pylist())
[{'name': 'SYM', 'value_int': None}, {'name': 'BIDSIZE', 'value_int': 10}]
"""

from __future__ import annotations

from wireloom.columnar.decoding import decode_bytes, decode_frames, infer_columns
from wireloom.columnar.framing import FrameScanner, scan_frames
from wireloom.columnar.messages import BATCH_ROWS, MessageDecoder

__all__ = [
    "BATCH_ROWS",
    "FrameScanner",
    "MessageDecoder",
    "decode_bytes",
    "decode_frames",
    "infer_columns",
    "scan_frames",
]
