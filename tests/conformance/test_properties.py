"""Messages made by strategies, whole and damaged, alone and in streams."""

from __future__ import annotations

import os
import pickle
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wireloom
from wireloom import Frame
from wireloom.formats import get
from wireloom.testing.chunks import cut_randomly
from wireloom.testing.conformance import examine
from wireloom.testing.conformance.samples import check_html, check_json, check_tree
from wireloom.testing.mutations import EDITS
from wireloom.testing.strategies import messages, options

# The same examples at every run, so that a failure is never a matter of luck. More, and others,
# are tried by `./run fuzz`, or here with a larger number in the environment.
EXAMPLES = int(os.environ.get("WIRELOOM_EXAMPLES", "60"))
PROFILE = settings(max_examples=EXAMPLES, derandomize=EXAMPLES <= 60, deadline=None, database=None)

NAMES = wireloom.formats()


@pytest.mark.parametrize("name", NAMES)
def test_every_message_survives_bytes_json_and_pickle(name: str) -> None:
    known = options(name)

    @PROFILE
    @given(messages(name))
    def run(message: wireloom.Message) -> None:
        data = message.encode()
        again = wireloom.decode(data, name, **known)
        assert again == message
        assert hash(again) == hash(message)
        assert again.encode() == data
        assert pickle.loads(pickle.dumps(message)) == message
        check_json(get(name), message)
        check_tree(wireloom.outline(data, name, **known), data)
        check_tree(message.outline(), data)
        check_html(message)

    run()


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_of_messages_is_cut_into_them(name: str) -> None:
    known = options(name)

    @PROFILE
    @given(st.lists(messages(name), min_size=1, max_size=5), st.integers(0, 1000))
    def run(some: list[wireloom.Message], seed: int) -> None:
        parts = [message.encode() for message in some]
        chunks = cut_randomly(b"".join(parts), Random(seed))
        records = list(wireloom.scan(chunks, name, **known))
        assert all(isinstance(record, Frame) for record in records)
        assert [record.data for record in records] == parts

    run()


@pytest.mark.parametrize("name", NAMES)
def test_damaged_messages_raise_nothing_but_decode_errors(name: str) -> None:
    known: Any = options(name)

    @PROFILE
    @given(
        messages(name),
        messages(name),
        st.lists(st.sampled_from(EDITS), min_size=1, max_size=4),
        st.integers(0, 1 << 32),
    )
    def run(
        message: wireloom.Message, other: wireloom.Message, edits: list[Any], seed: int
    ) -> None:
        random = Random(seed)
        data = bytearray(message.encode())
        for edit in edits:
            edit(data, other.encode(), random)
        examine(get(name), bytes(data), random, **known)

    run()


@pytest.mark.parametrize("name", NAMES)
def test_noise_raises_nothing_but_decode_errors(name: str) -> None:
    known: Any = options(name)

    @PROFILE
    @given(st.binary(max_size=200))
    def run(data: bytes) -> None:
        examine(get(name), data, Random(0), **known)
        wireloom.detect(data)

    run()
