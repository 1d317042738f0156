from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from pathlib import Path

from wireloom.formats.blaze import DIALECTS, FORMAT, PACKETS, BlazePacket, words
from wireloom.formats.blaze.dialects import DOCUMENT_ENUMS, enum_of
from wireloom.layout import Rest, Word, describe

SPEC = Path(inspect.getfile(type(FORMAT))).with_name("SPEC.md")


def render(heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def forms_table() -> str:
    rows = []
    for code, cls in PACKETS.items():
        for count, parts in cls.codec.forms.items():
            is_long = count != min(cls.codec.forms)
            names = [p.name.upper() for p in parts if isinstance(p, Word)]
            listed = " ".join(f"{i}:{name}" for i, name in enumerate(names) if i)
            if any(isinstance(p, Rest) for p in parts):
                listed += " body"
            only_form = len(cls.codec.forms) == 1
            when = "" if only_form else cls.note if is_long else "otherwise"
            rows.append((str(code), cls.name, cls.sender, str(count), listed, when))
    return render(("PKTTYP", "name", "sender", "HDRLEN", "words", "when"), rows)


def words_table() -> str:
    rows = []
    for name in sorted(words.__all__):
        word = getattr(words, name)
        if isinstance(word, Word):
            cls = type("Fake", (BlazePacket,), {"parts": (word,)})
            rows += [(name, size, field, says) for _, size, field, says in describe(cls)]
    return render(("word", "size", "field", "meaning"), rows)


def dialects_table() -> str:
    rows: list[tuple[str, ...]] = [
        ("", *(dialect.summary for dialect in DIALECTS.values())),
        ("first INDEX", *(str(dialect.first_index) for dialect in DIALECTS.values())),
    ]
    for field, document in DOCUMENT_ENUMS.items():
        cells = []
        for dialect in DIALECTS.values():
            enum = enum_of(dialect, field)
            if enum is document:
                cells.append("§3")
            elif enum is None:
                cells.append("numbers without names")
            else:
                own = [m for m in enum if document._value2member_map_.get(m) is not m]
                other = [
                    m for m in own if getattr(document.__members__.get(m.name), "value", None) != m
                ]
                cells.append(", ".join(f"{int(m)} {m.name}" for m in other))
        if len(set(cells)) > 1:
            rows.append((field.upper(), *cells))
    return render(("", *DIALECTS), rows)


def expected_tables() -> dict[str, str]:
    return {"FORMS": forms_table(), "WORDS": words_table(), "DIALECTS": dialects_table()}


def test_the_tables_are_those_of_the_declarations() -> None:
    text = SPEC.read_text("utf-8")
    found = dict(re.findall(r"<!-- table: (\w+) -->\n(.*?)<!-- end -->", text, re.DOTALL))
    assert found == expected_tables()


def test_every_erratum_is_listed_once() -> None:
    listed = re.findall(r"^\| E(\d+) \|", SPEC.read_text("utf-8"), re.MULTILINE)
    assert sorted(map(int, listed)) == list(range(1, 38))


def test_every_section_that_the_code_cites_exists() -> None:
    text = SPEC.read_text("utf-8")
    sections = set(re.findall(r"^#+ (\d(?:\.\d)?)\.? ", text, re.MULTILINE))
    for file in SPEC.parent.glob("*.py"):
        source = file.read_text("utf-8")
        assert set(re.findall(r"§(\d(?:\.\d)?)", source)) <= sections, file.name
        errata = set(re.findall(r"erratum (E\d+)", source))
        assert all(f"| {erratum} |" in text for erratum in errata), file.name
