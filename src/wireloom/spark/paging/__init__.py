"""What Spark does not do for data sources in Python, added to the planning of its queries.

Spark takes Arrow from such a source and converts it to rows value by value, slowly, twice. It has
the source read all columns, whichever a query needs, and reuses pushed filters for later queries,
which then lack rows. With ``Paging.java`` a query reads the columns and rows that it needs, in
pages (`wireloom.spark.paging.pages`), which ``PageRows.java`` turns into rows where Spark reads
them.

Planning happens on the driver, where Spark accepts custom rules. This one is compiled by the
compiler that Spark ships for the code it generates, and ``PageRows.java`` reaches workers as Spark
distributes that code: nothing has to be built, sent to workers or put on a class path. Both rely on
Spark's internal classes. Where those differ, as they may in a future version, Spark plans as usual:
slower, with the same rows.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SETTING", "add_paging"]

SETTING: Final = "spark.wireloom.paging"
"""If ``false`` in a session's settings, Spark plans without the rule."""

_HERE: Final = Path(__file__).parent
_RULE: Final = "Paging"
_ROWS: Final = "PageRows"

_LOG: Final = logging.getLogger(__name__)


def add_paging(spark: SparkSession) -> bool:
    """Have a session read captures in pages; return whether it does now.

    Not with Spark Connect, where the driver is another process.
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
    """Put the rule before the session's others, unless it is there already.

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
