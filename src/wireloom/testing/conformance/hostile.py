"""Checks with arbitrary bytes: only a message or a `DecodeError` may come out of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

from wireloom.errors import DecodeError, EncodeError, OptionError
from wireloom.format import Format
from wireloom.framing import scan
from wireloom.messages import Message
from wireloom.testing.chunks import cut_randomly
from wireloom.testing.conformance.samples import (
    FormatCheck,
    check_error,
    check_html,
    check_json,
    check_tree,
    decode,
    expect,
    framer,
    outline,
)
from wireloom.testing.conformance.streams import check_sum
from wireloom.testing.mutations import Mutator
from wireloom.wire import varint

__all__ = ["HOSTILE_CHECKS", "examine"]

Options = Mapping[str, Any]

MUTANTS = 1500
"""Mutants tried in a test run; `./run fuzz` tries a million."""

NOISES = 300

ALLOWED_BYTES = 300_000
"""What reading a sample with one number changed may allocate at its peak: far less than any length
that such a number can announce, far more than a sample needs."""


REWRITTEN: Mapping[str, Callable[[Any, bytes], bool]] = {
    # A LEN longer than needed: the junction forwards the short one.
    "nais": lambda packet, data: data[5] >= 0x80,
    # Sizes that count themselves, as the document prints them: no writer does that.
    "tibrv": lambda message, data: message.dialect == "document",
}
"""Forms that are read but never written. All others are written as they were read, byte by byte."""


def examine(
    format: Format, data: bytes, random: Random, *, thorough: bool = True, **options: Any
) -> bool:
    """Try everything that can be done with arbitrary bytes; returns whether they are a message.

    Args:
        format: which to try.
        data: any bytes.
        random: decides how the stream is cut.
        thorough: try what is slow as well: JSON, the notebook view, pickled errors.
        options: how to read.

    Raises:
        AssertionError: something other than a message or a `DecodeError` came out.
    """
    sure = format.detect(data)
    expect(type(sure) is int and 0 <= sure <= 100, f"detect gives {sure!r}")
    message = _try(format, data, thorough, options)
    # A reader may be told to give the message that another one only carries.
    if message is not None and message.format == format.name:
        _check_accepted(format, data, message, thorough, options)
    tree = outline(format, data, **options)
    check_tree(tree, data)
    if message is None and not options.get("unwrap"):  # else what it carries may be wrong instead
        expect(any(n.error for _, n in tree.walk()), "no error in the tree of a bad message")
    records = list(scan(framer(format, **options), data))
    check_sum(records, len(data))
    pieces = cut_randomly(data, random, max(1, len(data)))
    expect(list(scan(framer(format, **options), pieces)) == records, "chunks change the records")
    return message is not None


def _try(format: Format, data: bytes, thorough: bool, options: Options) -> Message | None:
    try:
        return decode(format, data, **options)
    except DecodeError as error:
        if thorough:
            check_error(error, len(data))
        return None


def _check_accepted(
    format: Format, data: bytes, message: Message, thorough: bool, options: Options
) -> None:
    encoded = message.encode()
    start = data[: len(encoded)]
    strict = _try(format, start, thorough, {**options, "strict": True})
    if encoded == start:
        expect(strict is None or strict == message, "a strict reader reads something else")
    else:
        rewritten = REWRITTEN.get(format.name)
        allowed = rewritten is not None and rewritten(message, data)
        expect(allowed, f"written differently: {encoded.hex()}")
        # A strict reader refuses such a form, unless it was told to expect it.
        told = "dialect" in options
        expect(strict is None or told, f"strict, but written differently: {encoded.hex()}")
        again = decode(format, encoded)
        expect(again == message, f"{again!r} after writing and reading {message!r}")
    if thorough:
        check_json(format, message)
        check_html(message)
        check_tree(message.outline(), encoded)


def only_decode_errors_come_out_of_mutants(format: Format) -> None:
    """Valid messages, damaged in many ways."""
    mutator = Mutator(list(format.samples().values()), seed=7)
    for index, data in mutator.mutants(0, MUTANTS):
        _guarded(format, data, f"mutant {index} of seed 7")


def only_decode_errors_come_out_of_noise(format: Format) -> None:
    """Random bytes, alone and after the start of a message."""
    random = Random(11)
    samples = list(format.samples().values())
    for size in range(NOISES):
        noise = random.randbytes(size % 97)
        _guarded(format, noise, "noise")
        sample = random.choice(samples)
        _guarded(format, sample[: random.randrange(16)] + noise, "noise behind a start")


def _guarded(format: Format, data: bytes, what: str) -> None:
    try:
        examine(format, data, Random(5))
    except Exception as error:
        error.add_note(f"{format.name}: {what}: {data.hex()}")
        raise


def nothing_is_not_a_message(format: Format) -> None:
    """Empty data is an error for a reader, a tree with an error for a viewer, nothing to detect."""
    expect(format.detect(b"") < 50, "detected in nothing")
    expect(_try(format, b"", True, {}) is None, "a message of no bytes")
    expect(any(n.error for _, n in outline(format, b"").walk()), "no error in the tree of nothing")


def _with_huge_numbers(data: bytes) -> Iterator[bytes]:
    """The message with the largest numbers that fit, at every place where a length might be."""
    for at in range(min(len(data), 80)):
        for number in (b"\xff" * 4, b"\x7f" + b"\xff" * 3, b"\x00\xff\xff\xff", varint(2**28 - 1)):
            yield data[:at] + number + data[at + len(number) :]


def no_number_makes_it_allocate(format: Format) -> None:
    """A length is compared with the limits and with the data before anything is reserved for it."""
    if tracemalloc.is_tracing():
        return  # memory is traced elsewhere; the peak would not be ours
    for name, data in format.samples().items():
        outline(format, data)  # imports on first use must not count as the message's
        tracemalloc.start()
        try:
            for hostile in _with_huge_numbers(data):
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                _try(format, hostile, False, {})
                outline(format, hostile)
                list(scan(framer(format), hostile))
                peak = tracemalloc.get_traced_memory()[1] - before
                allowed = ALLOWED_BYTES + 200 * len(hostile)
                expect(peak < allowed, f"{name}: {peak} bytes reserved for {hostile.hex()}")
        finally:
            tracemalloc.stop()


def unknown_options_are_refused(format: Format) -> None:
    """A misspelt option is an error, and so is a value that is not among the choices."""
    bad: list[dict[str, object]] = [{"no_such_option": 1}, {"max_frame": 0}, {"max_depth": "deep"}]
    bad += [{option.name: "no such choice"} for option in format.options if option.choices]
    for options in bad:
        try:
            format.check_options(options)
        except OptionError:
            continue
        raise AssertionError(f"{options} was accepted")


def foreign_objects_are_refused(format: Format) -> None:
    """`from_dict` takes what `to_dict` made; for other objects it says what is wrong."""
    sample = next(iter(format.samples().values()))
    good = decode(format, sample).to_dict()
    damaged: list[dict[str, object]] = [{"format": format.name}]
    for key in good:
        if key != "format":
            damaged += [{**good, key: value} for value in (object(), {"?": []}, "\ud800", -1, [[]])]
    damaged.append({**good, "no_such_key": 1})
    for given in damaged:
        try:
            format.from_dict(given).encode()
        except EncodeError:
            continue
        except Exception as error:
            raise AssertionError(f"{error!r}, not EncodeError, for {given}") from error


HOSTILE_CHECKS: tuple[FormatCheck, ...] = (
    nothing_is_not_a_message,
    only_decode_errors_come_out_of_mutants,
    only_decode_errors_come_out_of_noise,
    no_number_makes_it_allocate,
    unknown_options_are_refused,
    foreign_objects_are_refused,
)
