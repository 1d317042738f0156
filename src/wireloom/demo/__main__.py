"""``python -m wireloom.demo``."""

from __future__ import annotations

import sys

from wireloom.demo import main

main(has_spark="--without-spark" not in sys.argv[1:])
