"""Spark copies every row of a data source in Python twice; this makes it once.

The copies are most of what reading captures costs: one takes the values out of a batch, the other
copies the row to one just like it. Which steps a query has is decided on the driver, where Spark
lets strategies be added. This one is ``OneCopy.java``, and is compiled by the compiler that Spark
brings for its own generated code: nothing has to be built, sent to workers or put on a class path.

It stands on Spark's inner classes. Where they differ, as they may in a version to come, Spark plans
as ever.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SETTING", "copy_once"]

SETTING: Final = "spark.wireloom.oneCopy"
"""With ``false`` in a session's settings, Spark plans all by itself."""

_SOURCE: Final = Path(__file__).with_name("OneCopy.java")
_LOG: Final = logging.getLogger(__name__)


def copy_once(spark: SparkSession) -> bool:
    """Have a session copy the rows of sources in Python once; whether it does.

    Not with Spark Connect, where the driver is somebody else's.
    """
    from py4j.protocol import Py4JError

    session: Any = getattr(spark, "_jsparkSession", None)
    if session is None or spark.conf.get(SETTING, "true") != "true":
        return False
    try:
        _add(spark, session)
    except Py4JError as error:
        _LOG.info("rows are copied twice: Spark does not take the strategy: %s", error)
        return False
    return True


def _add(spark: SparkSession, session: Any) -> None:
    """Put the strategy before those that the session has.

    Raises:
        Py4JError: this Spark does not have what it needs.
    """
    gateway: Any = spark.sparkContext._gateway
    jvm = gateway.jvm
    experimental = session.experimental()
    added = experimental.extraStrategies()
    others = [added.apply(number) for number in range(added.length())]
    if any(other.getClass().getName() == _SOURCE.stem for other in others):
        return
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
    compiler.cook(_SOURCE.read_text("utf-8"))
    (constructor,) = compiler.getClassLoader().loadClass(_SOURCE.stem).getConstructors()
    arguments = gateway.new_array(jvm.Object, 1)
    arguments[0] = session
    strategies = jvm.PythonUtils.toSeq([constructor.newInstance(arguments), *others])
    getattr(experimental, "extraStrategies_$eq")(strategies)
