"""What the streams of a capture share: scanners, the detector, and where pieces go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from wireloom.columnar.framing import FrameScanner
from wireloom.tabulate.detection import Detector
from wireloom.tabulate.lots import Piece
from wireloom.tabulate.settings import Settings

__all__ = ["Desk"]

_MAX_IDLE: Final = 64
"""Scanners kept for the next stream, for each format."""


class Desk:
    """Lends scanners, decides about formats, takes pieces; for one thread."""

    def __init__(self, settings: Settings, kernel: Any, put: Callable[[Piece], None]) -> None:
        """A desk.

        Args:
            settings: how streams are read.
            kernel: which kernel scans.
            put: takes the pieces.
        """
        self.kernel = kernel
        self.put = put
        self.detector = Detector(settings, self.scanner)
        self._settings = settings
        self._idle: dict[str, list[FrameScanner]] = {}

    def borrow(self, format: str) -> FrameScanner:
        """A scanner that nobody uses; it is to begin with `FrameScanner.scan_part`."""
        idle = self._idle.get(format)
        return idle.pop() if idle else self.scanner(format)

    def give_back(self, scanner: FrameScanner) -> None:
        """It is not needed any more."""
        scanner.restart()  # lets go of what it held
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
            **settings.scanner_options(format),
        )
