"""A TibMsg, built field by field → a Rendezvous message, with a report of what got lost."""

from __future__ import annotations

import wireloom

quote = wireloom.from_dict(
    {
        "format": "tibmsg",
        "fields": [
            {"name": "SYMBOL", "type": "string", "value": "ABC.N"},
            {"name": "BID", "type": "real", "size": 8, "value": 175.92},
            {"name": "SIZE", "type": "int", "size": 4, "value": 300},
        ],
    }
)
print("tibmsg", quote.encode().hex(" "))

converted, losses = wireloom.convert(quote, to="tibrv")
print("tibrv ", converted.encode().hex(" "))
print("lost  ", [str(loss) for loss in losses] or "nothing")
