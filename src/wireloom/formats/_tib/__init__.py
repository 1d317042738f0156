"""What TibMsg, TibrvMsg and QForm share: typed values, their wire spellings, and field look-up.

* `values`: the dates, times, enums and blanks that hints and dictionaries make of plain data.
* `decimals`: a real with a hint ↔ an exact decimal.
* `texts`: date and time texts ↔ typed values.
* `scalars`: the bytes of one scalar ↔ a Python value, and its JSON form.
* `lookup`: fields by name, for messages and nested messages.
* `headers`: magic and length, and how they cut a stream into messages.
* `problems`, `quick`, `build`, `jsonform`, `show`, `payloads`: what walkers, decoders, builders,
  JSON forms and outlines of several formats have in common.

Nothing here knows how a field is laid out; that is each format's own walker.
"""

from __future__ import annotations
