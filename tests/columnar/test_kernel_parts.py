"""The kernel's parts are joined into one module when it is compiled."""

from __future__ import annotations

import re
from pathlib import Path

from wireloom import kernel

CONSTANT = re.compile(r"^(\w+) = cython\.declare\((.*)\)$", re.MULTILINE)


def test_no_two_parts_give_a_name_two_values():
    folder = Path(kernel.__file__).parent
    found: dict[str, dict[str, str]] = {}
    for part in (folder / "PARTS").read_text().split():
        for name, value in CONSTANT.findall((folder / f"{part}.py").read_text("utf-8")):
            found.setdefault(name, {})[part] = value
    assert len(found) > 100
    # Compiled, the last one would count for all of them.
    assert {name: by for name, by in found.items() if len(set(by.values())) > 1} == {}
