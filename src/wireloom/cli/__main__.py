"""``python -m wireloom.cli`` is the ``wireloom`` command."""

from __future__ import annotations

from wireloom.cli import main

main(prog_name="wireloom")
