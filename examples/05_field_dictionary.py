"""A QForm message carries ids and bytes; a dictionary says which fields they are."""

from __future__ import annotations

import wireloom
from wireloom.formats import qform
from wireloom.formats.qform.dictionary import check

CFILE = """
BID    { CLASS_ID 101; IS_PRIMITIVE true; IS_FIXED true;  DATA_SIZE 9;  DATA_TYPE 15; }
SYMBOL { CLASS_ID 102; IS_PRIMITIVE true; IS_FIXED false; DATA_SIZE 20; DATA_TYPE 2; }
"""
assert not check(CFILE)  # nothing odd in it
dictionary = qform.load(CFILE)  # also a path: tss_fields.cf, RDMFieldDictionary, or their directory
for entry in dictionary:
    print(entry.fid, entry.name, entry.md_type, entry.kind, entry.size)

data = qform.build(dictionary, {"BID": "175.92", "SYMBOL": "ABC.N"}).encode()
print(data.hex(" "))

message = wireloom.decode(data, dictionary=dictionary)
for field in message.to_dict()["fields"]:
    print(field["name"], "=", field["value"])
