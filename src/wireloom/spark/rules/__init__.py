"""What Spark does not do for data sources in Python, added to the planning of its queries.

* ``OneCopy.java``: Spark copies every row of such a source twice, once out of the batch and once
  more to a row just like it. The second copy costs a third of all that reading captures does.
* ``LessToRead.java``: Spark has such a source read all columns, whichever a query needs, and keeps
  the filters that it hands over for later queries, which then lack rows. With this rule a query
  reads the columns and rows that it needs, and no other feels it.

Planning is done on the driver, where Spark takes rules of others. These are compiled by the
compiler that Spark brings for the code it generates: nothing has to be built, sent to workers or
put on a class path. They stand on Spark's inner classes. Where those differ, as they may in a
version to come, Spark plans as ever: slower, with the same rows.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SETTING", "add_rules"]

SETTING: Final = "spark.wireloom.rules"
"""With ``false`` in a session's settings, Spark plans all by itself."""

_HERE: Final = Path(__file__).parent
_PLACES: Final = {"OneCopy": "extraStrategies", "LessToRead": "extraOptimizations"}
"""Where in a session each rule has its place."""

_LOG: Final = logging.getLogger(__name__)


def add_rules(spark: SparkSession) -> bool:
    """Add the rules to a session that does not have them yet; whether it has them now.

    Not with Spark Connect, where the driver is somebody else's.
    """
    from py4j.protocol import Py4JError

    session: Any = getattr(spark, "_jsparkSession", None)
    if session is None or spark.conf.get(SETTING, "true") != "true":
        return False
    try:
        for name, place in _PLACES.items():
            _add(spark.sparkContext._gateway, session, name, place)
    except Py4JError as error:
        _LOG.info("Spark does not take rules for sources in Python: %s", error)
        return False
    return True


def _add(gateway: Any, session: Any, name: str, place: str) -> None:
    """Put a rule before those that the session has.

    Raises:
        Py4JError: this Spark does not have what the rule needs.
    """
    jvm = gateway.jvm
    experimental = session.experimental()
    added = getattr(experimental, place)()
    others = [added.apply(number) for number in range(added.length())]
    if any(other.getClass().getName() == name for other in others):
        return
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.Thread.currentThread().getContextClassLoader())
    compiler.cook((_HERE / f"{name}.java").read_text("utf-8"))
    (constructor,) = compiler.getClassLoader().loadClass(name).getConstructors()
    arguments = gateway.new_array(jvm.Object, 1)
    arguments[0] = session
    rules = jvm.PythonUtils.toSeq([constructor.newInstance(arguments), *others])
    getattr(experimental, f"{place}_$eq")(rules)
