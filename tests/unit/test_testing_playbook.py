from __future__ import annotations

import pytest

from wireloom.testing.playbook import EOF, Playbook, Wait


class Echo:
    """Sends back each whole line, says its length, and rings ten seconds later."""

    is_closed = False

    def __init__(self) -> None:
        self.line = b""
        self.out = b""
        self.at: float | None = None

    def receive(self, data: bytes, now: float) -> list[object]:
        if not data:
            return ["end"]
        self.at = now + 10
        self.line += data
        *lines, self.line = self.line.split(b"\n")
        for line in lines:
            self.out += line + b"\n"
        return [len(line) for line in lines]

    def data_to_send(self) -> bytes:
        data, self.out = self.out, b""
        return data

    def next_timeout(self, now: float) -> float | None:
        return None if self.at is None else max(0.0, self.at - now)

    def handle_timeout(self, now: float) -> list[object]:
        self.at = now + 10
        return [f"ring at {now:g}"]

    def close(self) -> None:
        self.out += b"bye"


def test_a_conversation_that_goes_as_written_is_true() -> None:
    play = Playbook(Echo)
    assert (
        play
        >> b"ab\nc"
        << b"ab\n"
        << 2
        >> b"d\n"
        << 2
        << b"cd\n"
        >> Wait(25)
        << "ring at 1010"
        << str
        >> (lambda session, now: session.close())
        << b"b"
        << b"ye"
        >> (lambda session, now: [now])
        << 1025.0
        >> EOF
        << "end"
    )
    assert play.session.line == b""


@pytest.mark.parametrize(
    ("play", "reason"),
    [
        (Playbook(Echo) >> b"a\n" << 1, "is sent, too"),
        (Playbook(Echo) >> b"a\n" << b"a\n", r"there are more events: \[1\]"),
        (Playbook(Echo) >> b"a\n" << b"a\n" >> b"b", r"there are more events: \[1\]"),
        (Playbook(Echo) >> b"a\n" << b"b\n", r"b'b\\n' is not sent, but b'a\\n'"),
        (Playbook(Echo) >> b"a\n" << b"a\n" << 2, "the event is 1, not 2"),
        (Playbook(Echo) >> b"a\n" << b"a\n" << str, "the event is 1, not <class 'str'>"),
        (Playbook(Echo) >> b"a" << 1, "no event where 1 is expected"),
    ],
)
def test_one_that_goes_otherwise_says_how(play: Playbook[Echo], reason: str) -> None:
    with pytest.raises(AssertionError, match=reason):
        bool(play)


def test_a_failure_shows_what_went_before() -> None:
    with pytest.raises(
        AssertionError, match=r">> b'a\\n'\n<< b'a\\n'\nthen, received in one chunk"
    ):
        bool(Playbook(Echo) >> b"a\n" << b"a\n")


def test_a_session_that_depends_on_chunks_is_found() -> None:
    class Whole(Echo):
        def receive(self, data: bytes, now: float) -> list[object]:
            return super().receive(data, now) if data.endswith(b"\n") else []

    play = Playbook(Whole) >> b"ab\n" << b"ab\n" << 2
    with pytest.raises(AssertionError, match="received in chunks of 1:"):
        bool(play)
    assert Playbook(Whole, chunks=[None]) >> b"ab\n" << b"ab\n" << 2


def test_bytes_given_out_twice_are_found() -> None:
    class Again(Echo):
        def data_to_send(self) -> bytes:
            return self.out

    with pytest.raises(AssertionError, match="is to be sent twice"):
        bool(Playbook(Again) >> b"a\n")


@pytest.mark.parametrize(("delay", "reason"), [(0.0, "1000 timeouts within 5"), (-1.0, "of -1.0")])
def test_a_timer_that_never_ends_is_found(delay: float, reason: str) -> None:
    class Restless(Echo):
        def next_timeout(self, now: float) -> float | None:
            return delay

        def handle_timeout(self, now: float) -> list[object]:
            return []

    with pytest.raises(AssertionError, match=reason):
        bool(Playbook(Restless) >> Wait(5))
