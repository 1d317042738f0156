"""Bodies of random classes, whole and damaged, against the object path, row for row.

The bodies are written here and not by the encoder: with faults at every level whose lengths still
fit, so that what lies behind a fault is reached, which a mutant of bytes hardly ever is.
"""

from __future__ import annotations

import json
import math
import struct
from random import Random

import pyarrow as pa
import pytest
from oracles.twins import batch_of

from wireloom import kernel as kernels
from wireloom.arrow.frames import Keys
from wireloom.errors import DecodeError
from wireloom.formats import get
from wireloom.formats.blaze import (
    ModelBuilder,
    SubscriptionEvent,
    TransactionRequest,
    TransactionResponse,
    decode_nclass,
    encode_nclass,
    get_dialect,
)
from wireloom.formats.blaze.bodies.decoder import BodyDecoder
from wireloom.formats.blaze.bodies.objects import object_rows
from wireloom.formats.blaze.codes import Encoding
from wireloom.formats.blaze.declarations import PRIMITIVES
from wireloom.formats.blaze.nclass import layout_of
from wireloom.tables import table
from wireloom.wire import DEFAULT_LIMITS, Limits

DIALECTS = ("document", "2017", "2019")
TXID = {"txplid": 1, "txsvid": 2, "txcnid": 7, "txprid": 9}
CLASSES = 5
NUMBERS = {"h": 16, "i": 32, "q": 64, "H": 16, "I": 32, "Q": 64, "B": 8}
REALS = (0.0, -0.0, 1.5, -0.1, math.inf, -math.inf, math.nan, 5e-324, 1e300)
TEXTS = (
    b"",
    b"a",
    b"hello",
    "h\u00e9llo".encode(),
    b"\xff\xfe",
    b"\0",
    "\u20ac\U0001f600".encode(),
)


def a_model(random):
    """Classes of which each may hold those before it; every primitive, alone and in arrays."""
    builder = ModelBuilder()
    for number in range(2):
        enum = builder.enum(f"ENUM{number}")
        for place in range(random.randint(1, 6)):
            # Values may be there twice: the first name counts.
            enum.member(f"M{number}_{place}", random.choice((-1, 0, 5, 7, 2**31 - 1, -(2**31))))
    known = [*PRIMITIVES, "ENUM0", "ENUM1"]
    for number in range(CLASSES):
        made = builder.nclass(f"CLASS{number}", 300 + 7 * number)
        fields = [(type, 1) for type in known] + [(type, random.randint(2, 4)) for type in known]
        fields = random.sample(fields, random.randint(0, 10)) if number < CLASSES - 1 else fields
        random.shuffle(fields)
        for place, (type, count) in enumerate(fields):
            made.field(f"f{place}_{type.lower()}", type, count)
        known.append(f"CLASS{number}")
    return builder.build()


class Writer:
    """Bodies of a model's classes, with a fault at one place in so many."""

    def __init__(self, model, random, first, faults=0.0):
        self.model = model
        self.random = random
        self.first = first
        self.faults = faults

    def is_wrong(self):
        return self.random.random() < self.faults

    def framed(self, content):
        size = len(content)
        if self.is_wrong():
            size = self.random.choice((size + 1, max(size - 1, 0), 0, 2**32 - 1, size + 2**16))
        return size.to_bytes(4, "little") + content

    def scalar(self, slot):
        random = self.random
        code, width = PRIMITIVES.get(slot.decl.type, ("i", 4))
        if slot.enum is not None and random.random() < 0.7:
            return struct.pack("<i", random.choice(slot.enum.members).value)
        if code == "?":
            return bytes([random.choice((0, 1, 1, 2 if self.is_wrong() else 1))])
        if code in "fd":
            value = random.choice(REALS)
            return struct.pack("<" + code, value if code == "d" or abs(value) < 1e38 else math.inf)
        if random.random() < 0.4:
            return random.choice((bytes(width), b"\xff" * width, b"\0" * (width - 1) + b"\x80"))
        return random.randbytes(width)

    def item(self, slot):
        if slot.layout is not None:
            return self.framed(self.fields(slot.layout))
        if slot.is_string:
            text = self.random.choice(TEXTS)
            return self.framed(text if self.is_wrong() else text[: slot.decl.count])
        return self.scalar(slot)

    def indexes(self, count):
        """Some of the indexes: ascending, unless there is a fault."""
        random = self.random
        found = sorted(random.sample(range(count), random.randint(0, count)))
        if found and self.is_wrong():
            random.choice((random.shuffle, lambda some: some.append(random.choice(some))))(found)
        if self.is_wrong():
            found.append(random.choice((count, 0xFFFF, count + 1)))
        return found

    def fields(self, layout):
        chunks = []
        for place in self.indexes(len(layout.slots)):
            slot = layout.slots[min(place, len(layout.slots) - 1)] if layout.slots else None
            content = b"" if slot is None else self.field(slot)
            chunks.append((place + self.first & 0xFFFF).to_bytes(2, "little") + content)
        whole = b"".join(chunks)
        return whole[: -self.random.randint(1, 3)] if whole and self.is_wrong() else whole

    def field(self, slot):
        if not slot.is_array:
            return self.item(slot)
        some = self.indexes(slot.decl.count)
        return self.framed(
            b"".join(index.to_bytes(2, "little") + self.item(slot) for index in some)
        )

    def body(self, name):
        return self.framed(self.fields(layout_of(self.model, name)))


def packet(random, nclsid, body, dialect, subscriptions):
    """A body in one of the packets that carry one."""
    enctyp = random.choice((1, 2, 3, 2, 2, 9))
    kind = random.choice(("request", "response", "event", "event"))
    if kind == "request":
        made = TransactionRequest(
            txtype=4, txactn=1, enctyp=enctyp, nclsid=nclsid, connid=7, body=body, **TXID
        )
    elif kind == "response":
        made = TransactionResponse(
            txresl=1, rescls=1, enctyp=enctyp, nclsid=nclsid, body=body, **TXID
        )
    else:
        known = [number for number, (found, _) in subscriptions.items() if found == nclsid]
        sbsrid = random.choice([*known, 9999])
        sevttp = random.choice((1, 2))
        made = SubscriptionEvent(sbsrid=sbsrid, sevttp=sevttp, sbeact=1, sevtid=1, body=body)
    return made.encode()


def wanted(model, frames, subscriptions, dialect, limits):
    """Rows, errors and texts by the object path alone."""
    rows, errors, texts, offset = [], [], [], 0
    for raw in frames:
        try:
            found = get("blaze").decode(
                raw,
                limits=limits,
                strict=False,
                dialect=dialect,
                model=model,
                subscriptions=subscriptions,
            )
        except DecodeError as error:
            errors.append((offset, error.code, error.reason, error.path, error.offset))
            texts.append(None)
        else:
            value = found.nclass
            texts.append(None if value is None else json.dumps(value.to_values()))
            if found.nclass is not None:
                key = {"frame_offset": offset, "frame_length": len(raw)}
                made = object_rows(found.nclass, found.body, get_dialect(dialect))
                rows += [row | key for row in made]
        offset += len(raw)
    return rows, errors, texts


def plain(value):
    """Something to compare: a NaN is as good as another, and a negative zero is not zero."""
    return repr(value) if isinstance(value, float) else value


def check(model, frames, kernel, subscriptions, dialect, limits=DEFAULT_LIMITS, batch=1 << 16):
    decoder = BodyDecoder(
        model,
        table("fields"),
        subscriptions=subscriptions,
        kernel=kernel,
        dialect=dialect,
        limits=limits,
        batch=batch,
    )
    given = batch_of("blaze", frames)
    words = decoder.classes(given, decoder.state())
    made = list(decoder.read(given, words, Keys("", "", 0, None), texts=True))
    for each in made:
        each.rows.validate(full=True)
    found = pa.Table.from_batches([each.rows for each in made], decoder.schema)
    rows, errors, texts = wanted(model, frames, subscriptions, dialect, limits)
    assert [text for each in made for text in each.texts.to_pylist()] == texts
    assert [
        (each.offset, each.error.code, each.error.reason, each.error.path, each.error.offset)
        for every in made
        for each in every.refused
    ] == errors
    assert found.num_rows == len(rows)
    for name in found.column_names:
        if name not in ("source", "stream", "ts_ns", "ts", "is_blank"):
            got = [plain(value) for value in found[name].to_pylist()]
            want = [plain(row.get(name)) for row in rows]
            assert got == want, name
    assert set(found["is_blank"].to_pylist()) <= {False}
    return len(rows), len(errors)


def corpus(seed, count, faults):
    random = Random(seed)
    model = a_model(random)
    dialect = random.choice(DIALECTS)
    ids = [found.id for found in model.nclasses]
    kinds = ("INDEXNOTZERO", "INDEXDELTA") + (("ALL",) if dialect == "document" else ())
    subscriptions = {number: (random.choice(ids), random.choice(kinds)) for number in range(1, 12)}
    writer = Writer(model, random, get_dialect(dialect).first_index_of(model), faults)
    frames = []
    for _ in range(count):
        found = random.choice((*model.nclasses, model.nclasses[-1]))
        nclsid = 999 if writer.is_wrong() else found.id
        frames.append(packet(random, nclsid, writer.body(found.name), dialect, subscriptions))
    return model, frames, subscriptions, dialect


@pytest.mark.parametrize("seed", range(6))
def test_bodies_of_random_classes(seed, kernel):
    count = 150 if kernel is not kernels.interpreted() else 15
    model, frames, subscriptions, dialect = corpus(seed, count, 0.0)
    rows, _ = check(model, frames, kernel, subscriptions, dialect)
    assert rows > count


@pytest.mark.parametrize("faults", [0.0005, 0.003, 0.02])
@pytest.mark.parametrize("seed", range(4))
def test_damaged_bodies_of_random_classes(seed, faults, kernel):
    count = 300 if kernel is not kernels.interpreted() else 20
    model, frames, subscriptions, dialect = corpus(100 + seed, count, faults)
    check(model, frames, kernel, subscriptions, dialect)


@pytest.mark.parametrize("batch", [1, 3, 50])
def test_batches_of_any_size(batch, kernel):
    count = 40 if kernel is not kernels.interpreted() else 8
    model, frames, subscriptions, dialect = corpus(7, count, 0.01)
    check(model, frames, kernel, subscriptions, dialect, batch=batch)


@pytest.mark.parametrize(
    "limits", [Limits(max_depth=2), Limits(max_fields=9), Limits(max_fields=60)]
)
def test_limits_hold_at_every_level(limits, kernel):
    count = 100 if kernel is not kernels.interpreted() else 10
    model, frames, subscriptions, dialect = corpus(8, count, 0.001)
    _, errors = check(model, frames, kernel, subscriptions, dialect, limits)
    assert errors


@pytest.mark.parametrize("encoding", list(Encoding))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_the_encoder_writes(encoding, dialect, kernel):
    random = Random(f"{encoding}{dialect}")
    model = a_model(random)
    spoken = get_dialect(dialect)
    first = spoken.first_index_of(model)
    name = model.nclasses[-1].name
    writer = Writer(model, random, 1)
    frames = []
    for _ in range(5 if kernel is not kernels.interpreted() else 2):
        value = decode_nclass(model, name, writer.body(name), first_index=1)
        body = encode_nclass(value, encoding, first_index=first)
        enctyp = encoding if dialect == "document" else max(encoding - 1, 1)
        frames.append(
            TransactionRequest(
                txtype=4,
                txactn=1,
                enctyp=int(enctyp),
                nclsid=model.nclasses[-1].id,
                connid=7,
                body=body,
                **TXID,
            ).encode()
        )
    rows, errors = check(model, frames, kernel, {}, dialect)
    assert rows
    assert not errors
