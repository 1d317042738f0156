"""The NAIS junction on real connections."""

from __future__ import annotations

from wireloom.services.nais.junction import Junction, LineAddress, parse_line, parse_route

__all__ = ["Junction", "LineAddress", "parse_line", "parse_route"]
