"""Checks on one canonical message: both directions, JSON, pickle, tree, notebook, truncation."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

from wireloom.errors import DecodeError, LimitError, TruncatedError
from wireloom.format import Format
from wireloom.framing import Frame, Framer, scan
from wireloom.messages import Message
from wireloom.outline import Node

__all__ = [
    "SAMPLE_CHECKS",
    "FormatCheck",
    "SampleCheck",
    "check_error",
    "check_html",
    "check_json",
    "check_tree",
    "decode",
    "expect",
    "framer",
    "outline",
]

FormatCheck = Callable[[Format], None]
SampleCheck = Callable[[Format, str, bytes], None]

MAX_CUTS = 300
"""Truncations tried of one sample: for a longer one, near both ends and evenly in between."""


def expect(condition: object, message: str) -> None:
    """Raise unless the condition holds. Unlike `assert` it also does so under ``python -O``.

    Raises:
        AssertionError: it does not hold.
    """
    if not condition:
        raise AssertionError(message)


# What `wireloom.decode`, `scan` and `outline` do, for a format that may not be registered.


def decode(format: Format, data: bytes, **options: Any) -> Message:
    """The message at the start of `data`.

    Raises:
        DecodeError: there is none.
    """
    limits, strict, own = format.check_options(options)
    return format.decode(data, limits=limits, strict=strict, **own)


def framer(format: Format, **options: Any) -> Framer:
    """A new framer of the format."""
    limits, strict, own = format.check_options(options)
    return format.framer(limits=limits, strict=strict, **own)


def outline(format: Format, data: bytes, **options: Any) -> Node:
    """The tree of the message at the start of `data`."""
    limits, strict, own = format.check_options(options)
    return format.outline(data, limits=limits, strict=strict, **own)


def decodes_and_encodes_to_itself(format: Format, name: str, data: bytes) -> None:
    """The whole sample is one message, and it is written as it was read."""
    message = decode(format, data)
    expect(message.format == format.name, f"the message says its format is {message.format!r}")
    expect(message.type_name, "the message has no type name")
    expect(message.encode() == data, f"encoded as {message.encode().hex()}, not {data.hex()}")
    expect(decode(format, data, strict=True) == message, "a strict reader reads something else")


def is_one_frame(format: Format, name: str, data: bytes) -> None:
    """A stream of one sample is one frame."""
    found = list(scan(framer(format), data))
    expect(found == [Frame(format.name, 0, data)], f"not one frame: {found}")


def is_recognised(format: Format, name: str, data: bytes) -> None:
    """The format is sure enough of its own message."""
    sure = format.detect(data)
    expect(50 <= sure <= 100, f"detect gives {sure} for the format's own message")


def is_a_value(format: Format, name: str, data: bytes) -> None:
    """Messages are immutable, hashable, equal when their content is, and survive pickling."""
    message, twin = decode(format, data), decode(format, data)
    expect(message == twin, "two readings differ")
    expect(hash(message) == hash(twin), "equal messages with different hashes")
    others: tuple[object, ...] = (data, name, None)
    expect(message not in others, "equal to something else")
    for again in (pickle.loads(pickle.dumps(message)), copy.deepcopy(message), copy.copy(message)):
        expect(again == message and hash(again) == hash(message), f"copied as {again!r}")
        expect(again.encode() == data, "a copy encodes to other bytes")
    for field in getattr(message, "__dataclass_fields__", ("format",)):
        try:
            setattr(message, field, None)
        except (AttributeError, TypeError):
            continue
        raise AssertionError(f"{field} can be changed")
    expect(repr(message), "no repr")


def check_json(format: Format, message: Message) -> None:
    """The message survives JSON.

    Raises:
        AssertionError: it does not.
    """
    made = message.to_dict()
    expect(made.get("format") == format.name, "to_dict lacks the format")
    again = format.from_dict(json.loads(json.dumps(made, allow_nan=False)))
    expect(again == message, f"{again!r} came back from JSON, not {message!r}")


def survives_json(format: Format, name: str, data: bytes) -> None:
    """JSON loses nothing."""
    message = decode(format, data)
    check_json(format, message)
    made = json.loads(json.dumps(message.to_dict(), allow_nan=False))
    expect(format.from_dict(made).encode() == data, "other bytes after JSON")


def check_tree(root: Node, data: bytes) -> None:
    """Every node lies within its parent, and the root within the data.

    Raises:
        AssertionError: one does not.
    """
    expect(
        root.offset == 0 and 0 <= root.length <= len(data), f"the root is not in the data: {root}"
    )
    for _, node in root.walk():
        for child in node.children:
            inside = node.offset <= child.offset <= child.end <= node.end and child.length >= 0
            expect(inside, f"{child.name} {child.offset}..{child.end} is not inside {node.name}")


def _leaves(root: Node) -> Iterator[Node]:
    return (node for _, node in root.walk() if not node.children)


def has_a_complete_tree(format: Format, name: str, data: bytes) -> None:
    """The tree explains every byte of the message, and finds nothing wrong."""
    root = outline(format, data)
    check_tree(root, data)
    wrong = [node.name for _, node in root.walk() if node.error]
    expect(not wrong, f"errors in the tree of a good message: {wrong}")
    explained = bytearray(len(data))
    for leaf in _leaves(root):
        explained[leaf.offset : leaf.end] = b"\1" * leaf.length
    expect(0 not in explained, f"byte {explained.find(0)} is in no leaf of the tree")
    own = decode(format, data).outline()
    expect(own.length == len(data), "message.outline() is of another length")
    check_tree(own, data)


class _Page(HTMLParser):
    """Collects tags that the view does not write itself: they would come from the wire."""

    ours = frozenset({"style", "div", "table", "tr", "td", "span"})

    def __init__(self) -> None:
        super().__init__()
        self.foreign: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.ours or any(key not in ("class", "colspan") for key, _ in attrs):
            self.foreign.append(tag)


def check_html(message: Message) -> None:
    """The notebook view holds no control character and no markup from the wire.

    Raises:
        AssertionError: it does.
    """
    text = message._repr_html_()
    control = [c for c in text if not c.isprintable() and c != "\n"]
    expect(not control, f"control characters in HTML: {control[:5]}")
    page = _Page()
    page.feed(text)
    expect(not page.foreign, f"markup from the wire: {page.foreign[:5]}")


def shows_in_a_notebook(format: Format, name: str, data: bytes) -> None:
    """The view escapes what comes from the wire."""
    check_html(decode(format, data))


def names_its_payloads(format: Format, name: str, data: bytes) -> None:
    """Payloads are byte strings with a path, the same ones each time."""
    found = list(decode(format, data).payloads())
    for path, payload in found:
        expect(isinstance(path, str) and path, f"payload without a path: {path!r}")
        expect(type(payload) is bytes, f"{path}: a payload is bytes, not {payload!r}")
    expect(list(decode(format, data).payloads()) == found, "other payloads the second time")


def check_error(error: DecodeError, size: int) -> None:
    """An error says where, why and how much is missing, and survives pickling.

    Raises:
        AssertionError: it does not.
    """
    expect(0 <= error.offset <= size, f"offset {error.offset} is outside of {size} bytes: {error}")
    expect(error.reason and error.code, f"no reason or no code: {vars(error)}")
    if isinstance(error, TruncatedError):
        expect(error.needed > error.available >= 0, f"nothing is missing: {vars(error)}")
    if isinstance(error, LimitError):
        expect(error.value > error.limit, f"the limit is not passed: {vars(error)}")
    again = pickle.loads(pickle.dumps(error))
    expect(type(again) is type(error) and vars(again) == vars(error), "changed by pickling")


def cuts(size: int) -> list[int]:
    """Lengths to cut a message of `size` bytes to."""
    if size <= MAX_CUTS:
        return list(range(size))
    step = -(-size // (MAX_CUTS // 2))
    edge = MAX_CUTS // 4
    return sorted({*range(edge), *range(edge, size, step), *range(size - edge, size)})


def every_truncation_is_noticed(format: Format, name: str, data: bytes) -> None:
    """A truncated message is an error for a reader, and makes a framer wait for more."""
    for size in cuts(len(data)):
        part = data[:size]
        try:
            decode(format, part)
        except DecodeError as error:
            check_error(error, size)
        else:
            raise AssertionError(f"accepted when cut to {size} of {len(data)} bytes")
        check_tree(outline(format, part), part)
        expect(any(n.error for _, n in outline(format, part).walk()), f"no error in tree at {size}")
        stream = framer(format)
        expect(not stream.feed(part), f"the framer did not wait for more than {size} bytes")
        records = stream.feed(data[size:]) + stream.close()
        expect(records == [Frame(format.name, 0, data)], f"not one frame when cut at {size}")
        left = list(scan(framer(format), part))
        expect(sum(r.length for r in left) == size, f"records do not add up when cut to {size}")
        whole = [r for r in left if isinstance(r, Frame) and r.offset == 0]
        expect(not whole, f"a frame was made of the first {size} bytes")


def trailing_bytes_are_ignored_unless_strict(format: Format, name: str, data: bytes) -> None:
    """Bytes after a message are ignored, except by a strict reader."""
    message = decode(format, data)
    for behind in (b"\x00", b"\xff", b"\x00" * 16, data, data[:-1]):
        expect(decode(format, data + behind) == message, f"changed by {behind[:9].hex()} behind")
        tree = outline(format, data + behind)
        check_tree(tree, data + behind)
        expect(tree.length == len(data), "the tree goes on behind the message")
        try:
            decode(format, data + behind, strict=True)
        except DecodeError as error:
            check_error(error, len(data + behind))
        else:
            raise AssertionError(f"strict reading let {behind[:16].hex()} pass behind the message")


def the_frame_limit_holds(format: Format, name: str, data: bytes) -> None:
    """A message may be as long as the limit, but not longer."""
    expect(decode(format, data, max_frame=len(data)).encode() == data, "refused at the limit")
    try:
        decode(format, data, max_frame=len(data) - 1)
    except LimitError as error:
        check_error(error, len(data))
    else:
        raise AssertionError("max_frame is not obeyed by decode")
    records = list(scan(framer(format, max_frame=len(data) - 1), data))
    expect(sum(r.length for r in records) == len(data), "records do not add up")
    long = [r for r in records if isinstance(r, Frame) and r.length >= len(data)]
    expect(not long, "max_frame is not obeyed by the framer")


SAMPLE_CHECKS: tuple[SampleCheck, ...] = (
    decodes_and_encodes_to_itself,
    is_one_frame,
    is_recognised,
    is_a_value,
    survives_json,
    has_a_complete_tree,
    shows_in_a_notebook,
    names_its_payloads,
    every_truncation_is_noticed,
    trailing_bytes_are_ignored_unless_strict,
    the_frame_limit_holds,
)
