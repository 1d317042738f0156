"""Tables on Apache Spark: captures of any size, batch and streaming, on a machine or a cluster.

`session` starts Spark. ``spark.read.format("wireloom")`` then reads captures, and
``spark.readStream`` follows those that grow. `read_captures` is a shorter way for batches, and
`decode_column` decodes a column of any DataFrame.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from wireloom.spark.java import Java, find_java, use_java
from wireloom.spark.session import session

if TYPE_CHECKING:
    from wireloom.spark.dataframes import read_captures
    from wireloom.spark.functions import decode_column, register_functions

__all__ = [
    "Java",
    "decode_column",
    "find_java",
    "read_captures",
    "register_functions",
    "session",
    "use_java",
]

_LAZY = {
    "decode_column": "functions",
    "read_captures": "dataframes",
    "register_functions": "functions",
}


def __getattr__(name: str) -> Callable[..., Any]:
    # Spark imports this package whenever it looks up a source: heavy imports come later.
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = import_module(f"wireloom.spark.{_LAZY[name]}")
    found: Callable[..., Any] = getattr(module, name)
    return found
