"""Tables on Apache Spark: captures of any size, batch and streaming, on a machine or a cluster.

`session` starts Spark. ``spark.read.format("wireloom")`` then reads captures, and
``spark.readStream`` follows those that grow. `decode_column` decodes a column of any DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from wireloom.spark.java import Java, find_java, use_java
from wireloom.spark.session import session

if TYPE_CHECKING:
    from wireloom.spark.functions import decode_column, register_functions

__all__ = [
    "Java",
    "decode_column",
    "find_java",
    "register_functions",
    "session",
    "use_java",
]

_LAZY = ("decode_column", "register_functions")


def __getattr__(name: str) -> Callable[..., Any]:
    # Spark imports this package for every lookup of a source: what is heavy comes later.
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from wireloom.spark import functions

    found: Callable[..., Any] = getattr(functions, name)
    return found
