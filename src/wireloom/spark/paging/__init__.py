"""What Spark does not do for data sources in Python, added to the planning of its queries.

Spark takes Arrow from such a source and makes rows of it value by value, slowly, twice. It has the
source read all columns, whichever a query needs, and keeps filters that it hands over for later
queries, which then lack rows. With ``Paging.java`` a query reads the columns and rows that it
needs, in pages (`wireloom.spark.paging.pages`), of which ``PageRows.java`` makes rows where Spark
reads them.

Planning is done on the driver, where Spark takes rules of others. This one is compiled by the
compiler that Spark brings for the code it generates, and ``PageRows.java`` is handed out to workers
as Spark hands out that code: nothing has to be built, sent to workers or put on a class path. Both
stand on Spark's inner classes. Where those differ, as they may in a version to come, Spark plans as
ever: slower, with the same rows.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SETTING", "add_paging"]

SETTING: Final = "spark.wireloom.paging"
"""With ``false`` in a session's settings, Spark plans all by itself."""

_HERE: Final = Path(__file__).parent
_RULE: Final = "Paging"
_ROWS: Final = "PageRows"

_LOG: Final = logging.getLogger(__name__)


def add_paging(spark: SparkSession) -> bool:
    """Have a session read captures in pages; whether it does now.

    Not with Spark Connect, where the driver is somebody else's.
    """
    from py4j.protocol import Py4JError

    session: Any = getattr(spark, "_jsparkSession", None)
    if session is None or spark.conf.get(SETTING, "true") != "true":
        return False
    try:
        _add(spark.sparkContext._gateway, session)
    except Py4JError as error:
        _LOG.info("captures are read as Spark reads all sources in Python: %s", error)
        return False
    return True


def _add(gateway: Any, session: Any) -> None:
    """Put the rule before those that the session has, if it is not there.

    Raises:
        Py4JError: this Spark does not have what the rule needs.
    """
    jvm = gateway.jvm
    experimental = session.experimental()
    added = experimental.extraStrategies()
    others = [added.apply(number) for number in range(added.length())]
    if any(other.getClass().getName() == _RULE for other in others):
        return
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
    compiler.cook(_text(_RULE))
    (constructor,) = compiler.getClassLoader().loadClass(_RULE).getConstructors()
    arguments = gateway.new_array(jvm.Object, 2)
    arguments[0], arguments[1] = session, _text(_ROWS)
    rules = jvm.PythonUtils.toSeq([constructor.newInstance(arguments), *others])
    getattr(experimental, "extraStrategies_$eq")(rules)


def _text(name: str) -> str:
    return (_HERE / f"{name}.java").read_text("utf-8")
