from __future__ import annotations

from random import Random

import pytest

from wireloom.testing.chunks import SIZES, chunkings, cut, cut_randomly

DATA = bytes(range(200))


@pytest.mark.parametrize("size", SIZES)
def test_pieces_have_the_size_and_make_the_whole(size: int) -> None:
    pieces = list(cut(DATA, size))
    assert b"".join(pieces) == DATA
    assert all(len(piece) == size for piece in pieces[:-1])
    assert 0 < len(pieces[-1]) <= size


def test_random_pieces_make_the_whole_and_some_are_empty() -> None:
    pieces = list(cut_randomly(DATA, Random(1), 3))
    assert b"".join(pieces) == DATA
    assert b"" in pieces
    assert max(map(len, pieces)) <= 3


def test_nothing_has_no_pieces() -> None:
    assert list(cut(b"", 3)) == []
    assert list(cut_randomly(b"", Random(1))) == []


def test_every_chunking_is_the_same_stream_and_is_named() -> None:
    made = dict(chunkings(DATA, seed=4))
    assert len(made) == len(SIZES) + 2
    assert all(b"".join(chunks) == DATA for chunks in made.values())
    assert made == dict(chunkings(DATA, seed=4))
