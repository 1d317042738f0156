"""Formats of another package are tables of Spark, batch and stream, without a line of code."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from wireloom.formats import REGISTRY, _load
from wireloom.spark.offsets import Tail
from wireloom.spark.options import SourceOptions
from wireloom.spark.source import WireloomReader
from wireloom.spark.streaming import WireloomStreamReader

TOYS = Path(__file__).parents[1] / "conformance"

ENTRY_POINTS = """[wireloom.formats]
toy = toy_format:FORMAT
note = toy_note:FORMAT
"""

# A process of its own: Spark's workers must find the package when they start.
SCRIPT = """
import json, sys
from wireloom.spark import session

data, place = sys.argv[1:]
conf = {"spark.sql.warehouse.dir": f"{place}/warehouse", "spark.ui.enabled": "false"}
spark = session("local[2]", memory=1 << 30, conf=conf)
found = {}

def read(table, **options):
    reader = spark.read.format("wireloom").option("table", table)
    return reader.options(**{name.replace("__", "."): v for name, v in options.items()}).load(data)

packets = read("toy", ports="6543=toy")
found["schema"] = packets.schema.simpleString()
found["packets"] = [row.asDict() for row in packets.select("type_name", "x", "colour").collect()]
found["names"] = [row["name"] for row in read("fields", note__shout="true", skip="cups").collect()]
found["account"] = [row.asDict() for row in read("accounting").collect()]
stream = spark.readStream.format("wireloom").option("table", "toy").option("finish_after", "0")
query = stream.load(data).writeStream.format("memory").queryName("grown")
query = query.option("checkpointLocation", f"{place}/checkpoint").trigger(availableNow=True).start()
query.awaitTermination(120)
found["streamed"] = spark.sql("select count(*) as n from grown").collect()[0]["n"]
print(json.dumps(found))
spark.stop()
"""


# It starts a Spark of its own. `test_the_source_reads_its_table_in_this_process` shows nearly the
# same without one.
@pytest.mark.nightly
def test_a_format_of_another_package_is_a_table(tmp_path: Path) -> None:
    site = tmp_path / "site"
    for name in ("toy_format", "toy_note"):
        shutil.copytree(TOYS / name, site / name)
    info = site / "toys-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    make = (
        "import sys\nfrom toy_format import Colour, Move, Say\nfrom toy_note import FORMAT\n"
        "frames = [Move(x=300, colour=Colour.RED), Say(text=FORMAT.samples()['tea'])]\n"
        "open(sys.argv[1], 'wb').write(b''.join(each.encode() for each in frames * 5))\n"
    )
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "SPARK_LOCAL_DIRS": str(tmp_path)}
    data = tmp_path / "toy.bin"
    subprocess.run([sys.executable, "-c", make, str(data)], env=environment, check=True)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(data), str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert "type_name:string,text:binary,x:bigint,colour:string,speed:string" in found["schema"]
    move = {"type_name": "MOVE", "x": 300, "colour": "RED"}
    assert found["packets"] == [move, {"type_name": "SAY", "x": None, "colour": None}] * 5
    assert found["names"] == ["WHAT", "LEAF"] * 5
    [account] = found["account"]
    assert account["format"] == "toy"
    assert account["captured"] == account["decoded"] == data.stat().st_size
    assert found["streamed"] == 10


def test_the_source_reads_its_table_in_this_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(TOYS))
    monkeypatch.setitem(REGISTRY, "toy", "toy_format")
    monkeypatch.setitem(REGISTRY, "note", "toy_note")
    from toy_format import Colour, Move, Say
    from toy_note import FORMAT

    frames = [Move(x=300, colour=Colour.RED), Say(text=FORMAT.samples()["tea"])]
    path = tmp_path / "toy.bin"
    path.write_bytes(b"".join(each.encode() for each in frames * 5))

    def rows(table: str, **options: str) -> list[dict[str, object]]:
        given = SourceOptions.read({"path": str(path), "table": table, **options}).resolved()
        reader = WireloomReader(given, list(given.schema.names))
        found = []
        for task in reader.partitions():
            sent, part = pickle.loads(pickle.dumps((reader, task)))
            found += [row for batch in sent.read(part) for row in batch.to_pylist()]
        return found

    packets = rows("toy", split_bytes="60")
    assert [row["x"] for row in packets] == [300, None] * 5
    skipped = rows("fields", **{"note.shout": "true", "skip": "cups"})
    assert [row["name"] for row in skipped] == ["WHAT", "LEAF"] * 5
    options = SourceOptions.read({"path": str(path), "table": "toy", "finish_after": "0"})
    tail, stream = Tail(options), WireloomStreamReader(options, list(options.schema.names))
    start = {}
    found = []
    for now in (2e9, 3e9, 4e9):
        end = tail.advance(start, None, now)
        for task in tail.partitions(start, end):
            found += [row for batch in stream.read(task) for row in batch.to_pylist()]
        start = end
    assert [row["x"] for row in found] == [300, None] * 5
    _load.cache_clear()
