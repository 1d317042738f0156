"""Memory does not grow with the capture."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from wireloom.generate import Faults, generate

CHILD = """
import json, sys
from wireloom.captures import Capture, ReassemblyLimits, StreamData
# What is held behind holes grows up to its limit, and would hide what grows without one.
events = Capture(sys.stdin.buffer, limits=ReassemblyLimits(max_flow_packets=64))
total = sum(len(event.data) for event in events if isinstance(event, StreamData))
status = open("/proc/self/status").read()
print(json.dumps({"payload": total, "peak": int(status.partition("VmHWM:")[2].split()[0]) * 1024}))
"""


def peak(size: int) -> dict[str, Any]:
    """What a process reports that reads a generated capture of this size from a pipe."""
    with subprocess.Popen(
        [sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        faults = Faults(reorder=0.02, loss=0.002, duplicates=0.02)
        generate(child.stdin, ["tibrv", "nrep"], size=size, faults=faults)
        child.stdin.close()
        found: dict[str, Any] = json.loads(child.stdout.read())
    return found


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_long_capture_takes_no_more_memory_than_a_short_one():
    short, long = peak(8_000_000), peak(60_000_000)
    assert long["payload"] > 6 * short["payload"]
    assert long["peak"] < short["peak"] + 16_000_000
