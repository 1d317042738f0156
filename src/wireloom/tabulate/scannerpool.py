"""What the streams of a capture share: scanners, the detector, and where segments go."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from wireloom.captures import Stream
from wireloom.columnar.framing import FrameScanner
from wireloom.tables import ERRORS
from wireloom.tabulate.detection import FIRST_LOOK, PREFIX, Detector
from wireloom.tabulate.groups import Segment
from wireloom.tabulate.settings import Settings

__all__ = ["ScannerPool"]

_MAX_IDLE: Final = 64
"""Scanners kept for the next stream, for each format."""

_EARLY: Final = (64, 128, 256, 512, 1024, 2048)
"""Bytes after which the format of a live stream is first decided; if uncertain, it waits."""


class ScannerPool:
    """Lends scanners, decides about formats, takes segments; for one thread."""

    def __init__(
        self,
        settings: Settings,
        kernel: Any,
        put: Callable[[Segment], None],
        *,
        options: Callable[[str], dict[str, Any]] | None = None,
        is_live: bool = False,
        error_columns: Collection[str] = ERRORS.names,
        skip: Callable[[Stream], None] | None = None,
    ) -> None:
        """No scanner is lent yet.

        Args:
            settings: how streams are read.
            kernel: which kernel scans.
            put: takes the segments.
            options: gives a format's options for its scanner; by default those of the settings.
            is_live: whether somebody waits for the first frames.
            error_columns: what is wanted of the rows of `errors`. Without ``raw``, bytes of streams
                in no known format are only counted.
            skip: told of a stream that turns out to be in no known format, if no rows are wanted:
                then its bytes need not be given any more.
        """
        self.kernel = kernel
        self.put = put
        self.is_row_wanted = bool(error_columns)
        self.is_raw_wanted = "raw" in error_columns
        self.skip = None if error_columns else skip
        self.detector = Detector(settings, self.scanner, kernel)
        self.looks = (*_EARLY, FIRST_LOOK, PREFIX) if is_live else (FIRST_LOOK, PREFIX)
        """After how many bytes a stream's format is first decided."""
        self.borrowers: list[Any] = []
        """Readers that may keep bytes in an event's buffer, until they are told to own them."""
        self._options = settings.packet_options if options is None else options
        self._settings = settings
        self._idle: dict[str, list[FrameScanner]] = {}

    def borrow(self, format: str) -> FrameScanner:
        """A scanner that is not in use; start it with `FrameScanner.scan_part`."""
        idle = self._idle.get(format)
        return idle.pop() if idle else self.scanner(format)

    def give_back(self, scanner: FrameScanner) -> None:
        """Take back a scanner."""
        scanner.restart()  # releases what it held
        idle = self._idle.setdefault(scanner.format, [])
        if len(idle) < _MAX_IDLE:
            idle.append(scanner)

    def scanner(self, format: str) -> FrameScanner:
        """A new scanner."""
        settings = self._settings
        return FrameScanner(
            format,
            limits=settings.limits,
            strict=settings.strict,
            kernel=self.kernel,
            **self._options(format),
        )
