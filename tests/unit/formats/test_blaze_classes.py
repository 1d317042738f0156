"""Python classes made from a model, and the stub that describes them."""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wireloom.errors import EncodeError
from wireloom.formats.blaze import (
    Encoding,
    apply_delta,
    decode_nclass,
    encode_nclass,
    from_blz,
    new_value,
)
from wireloom.formats.blaze.classes import ModelObject, classes_of, load_classes
from wireloom.formats.blaze.stub import stub_of

SOURCE = """
@model_name "fleet"
enum GAUGE
{
    GAUGE_Off
    GAUGE_Low "low"
    GAUGE_High = 9
    mro = 10
}
nclass POINT
{
    @id 301
    int_32 x
    int_32 y
    ascii[6] label "short \\ label"
}
nclass EMPTY
{
    @id 305
}
nclass TRUCK
{
    @id 302
    uint_32 truck_id
    ascii[16] name
    GAUGE gauge
    int_16[4] temps
    POINT home
    POINT[3] stops
    float_64 speed
    float_32 load
    bool on
    byte[8] raw
    ascii grade
    uint_64 big
    GAUGE[2] gauges
    ascii[4] class
    int_32 replace
    float_32[2] ratios
    @key primary
    @id 1
    @fldset {truck_id, class}
    @key_end
}
"""
MODEL = from_blz(SOURCE)
FLEET = classes_of(MODEL)
TRUCK: Any = FLEET.TRUCK
POINT: Any = FLEET.POINT
GAUGE: Any = FLEET.GAUGE


def full() -> Any:
    return TRUCK(
        truck_id=7,
        name="hello",
        gauge="GAUGE_High",
        temps=[1, 0, -3],
        home={"x": 5},
        stops={2: POINT(label="dock")},
        speed=-0.0,
        load=1.1,
        on=True,
        raw=b"\1\2",
        grade="A",
        big=(1 << 64) - 1,
        gauges=[77],
        class_="van",
        ratios=[0.0, -0.0],
    )


def test_an_object_has_every_field_and_shows_those_that_are_not_zero() -> None:
    empty = TRUCK()
    assert (empty.truck_id, empty.name, empty.temps, empty.raw) == (0, "", [0] * 4, bytes(8))
    assert empty.home == POINT()
    assert empty.gauge is GAUGE.GAUGE_Off
    assert repr(empty) == "TRUCK()"
    assert empty.to_dict() == {}
    truck = full()
    assert truck.gauge is GAUGE.GAUGE_High
    assert truck.gauges == [77, GAUGE.GAUGE_Off]  # a number without a name stays one
    assert truck.stops[2] == POINT(label="dock")
    assert truck.key == (7, "van")
    assert POINT(x=1).key is None
    assert repr(POINT(x=1, label="a")) == "POINT(x=1, label='a')"
    assert GAUGE.mro_ == 10
    assert set(FLEET) == {"GAUGE", "POINT", "EMPTY", "TRUCK"}
    assert len(FLEET) == 4
    assert "TRUCK" in dir(FLEET)
    assert FLEET["TRUCK"] is TRUCK
    assert classes_of(MODEL) is FLEET


def test_bytes_are_those_of_the_codec_in_every_encoding() -> None:
    truck = full()
    for encoding in (Encoding.INDEXNOTZERO, Encoding.ALL):
        for first in (None, 1, 2):
            raw = truck.encode(encoding, first)
            assert raw == encode_nclass(truck.to_value(encoding), encoding, first_index=first)
            value = decode_nclass(MODEL, "TRUCK", raw, encoding, first_index=first)
            assert TRUCK.from_value(value) == truck
    assert math.copysign(1, TRUCK.from_dict(truck.to_dict()).speed) < 0
    assert TRUCK().encode() == bytes(4)


numbers = st.integers(-(1 << 15), (1 << 15) - 1)
points = st.builds(POINT, x=numbers, y=numbers, label=st.text("abcé", max_size=3))
trucks = st.builds(
    TRUCK,
    truck_id=st.integers(0, (1 << 32) - 1),
    name=st.text("abc", max_size=16),
    gauge=st.sampled_from([0, 1, 9, 55]),
    temps=st.lists(numbers, max_size=4),
    home=points,
    stops=st.dictionaries(st.integers(0, 2), points),
    speed=st.floats(allow_nan=False),  # JSON does not keep the bits of a NaN
    load=st.floats(width=32, allow_nan=False),
    raw=st.binary(max_size=8),
    ratios=st.lists(st.floats(width=32, allow_nan=False), max_size=2),
)


@given(trucks)
def test_any_object_survives_every_way(truck: Any) -> None:
    raw = truck.encode()
    assert raw == encode_nclass(truck.to_value())
    again = TRUCK.from_value(decode_nclass(MODEL, "TRUCK", raw))
    assert again.encode() == raw
    assert TRUCK.from_dict(truck.to_dict()).encode() == raw
    assert pickle.loads(pickle.dumps(truck)).encode() == raw
    assert copy.deepcopy(truck).encode() == raw
    every = truck.encode(Encoding.ALL)
    assert TRUCK.from_value(decode_nclass(MODEL, "TRUCK", every, Encoding.ALL)).encode() == raw


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"truck_id": -1}, "-1 is not a value of type uint_32, 0 to 4294967295 (in truck_id)"),
        (
            {"temps": [0, 40_000]},
            "40000 is not a value of type int_16, -32768 to 32767 (in ",
        ),
        ({"temps": [0] * 5}, "the index must be from 0 to 3 (in temps[4])"),
        ({"temps": {"x": 1}}, "the index must be from 0 to 3 (in temps[x])"),
        ({"temps": 5}, "5 is not an array (in temps)"),
        ({"temps": "abc"}, "'abc' is not an array (in temps)"),
        ({"name": "x" * 17}, "17 bytes of text, 16 are the most (in name)"),
        ({"name": 5}, "5 is not text (in name)"),
        ({"gauge": "GAUGE_None"}, "'GAUGE_None' is not a value of type GAUGE (in gauge)"),
        ({"home": 5}, "5 is not an object of class POINT (in home)"),
        ({"home": {"z": 5}}, "class POINT has no such field (in home.z)"),
        ({"stops": {1: {"x": 1 << 40}}}, "is not a value of type int_32 (in stops[1].x)"),
        ({"raw": bytes(9)}, "the index must be from 0 to 7 (in raw[8])"),
        ({"grade": "AB"}, "'AB' is not a value of type ascii (in grade)"),
        ({"on": 2}, "2 is not a value of type bool (in on)"),
        ({"speed": "fast"}, "'fast' is not a value of type float_64 (in speed)"),
    ],
)
def test_what_does_not_fit_is_said_with_its_place(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(EncodeError) as caught:
        TRUCK(**fields)
    assert told in str(caught.value)
    truck = TRUCK()
    with pytest.raises(EncodeError):
        setattr(truck, *next(iter(fields.items())))
    assert truck == TRUCK()


def test_lists_that_were_changed_in_place_are_checked_when_they_are_encoded() -> None:
    truck = full()
    truck.temps[1] = 1 << 40
    for work in (truck.encode, truck.to_value):
        with pytest.raises(EncodeError, match=r"int_16, -32768 to 32767 \(in temps\[1\]\)"):
            work()
    truck.temps = [1]
    truck.temps.append(5)
    with pytest.raises(EncodeError, match="5 elements, 4 are the most"):
        truck.encode()
    truck.temps.pop()
    truck.gauges[1] = "GAUGE_Low"
    truck.stops[0] = {"x": 3}
    again = TRUCK.from_value(decode_nclass(MODEL, "TRUCK", truck.encode()))
    assert again.gauges[1] is GAUGE.GAUGE_Low
    assert again.stops[0].x == 3


def test_names_that_do_not_exist_and_what_cannot_be_done() -> None:
    truck = TRUCK()
    with pytest.raises(TypeError, match="no field 'nam'"):
        TRUCK(nam="x")
    with pytest.raises(AttributeError, match="no field 'nam'"):
        truck.nam = "x"
    with pytest.raises(AttributeError, match="cannot be removed"):
        del truck.name
    with pytest.raises(TypeError, match="unhashable"):
        hash(truck)
    with pytest.raises(AttributeError, match="no class or enum 'CAR'"):
        _ = FLEET.CAR
    with pytest.raises(EncodeError, match="no class 'GAUGE'"):
        FLEET.object_class("GAUGE")
    with pytest.raises(EncodeError, match="no enum 'TRUCK'"):
        FLEET.enum_class("TRUCK")
    with pytest.raises(EncodeError, match="a POINT is not a TRUCK"):
        TRUCK.from_value(POINT().to_value())
    with pytest.raises(EncodeError, match="no field 'nam'"):
        truck.to_value(Encoding.INDEXDELTA, ["nam"])
    assert truck != 5
    assert truck != POINT()


def test_copies_are_independent() -> None:
    truck = full()
    other = truck.replace(name="other")
    assert (truck.name, other.name) == ("hello", "other")
    other.home.x = 6
    other.temps[0] = 9
    assert (truck.home.x, truck.temps[0]) == (5, 1)
    shallow = copy.copy(truck)
    assert shallow == truck
    assert shallow.home is truck.home
    assert FLEET.EMPTY() == FLEET.EMPTY.zero()


def test_a_delta_has_the_fields_that_are_named_and_the_key() -> None:
    base, truck = full(), full()
    truck.speed, truck.home.x = 0.0, 0
    delta = truck.to_value(Encoding.INDEXDELTA, ["speed", "home", "class_"])
    assert set(delta) == {"truck_id", "class", "speed", "home"}
    raw = encode_nclass(delta)
    read = decode_nclass(MODEL, "TRUCK", raw, Encoding.INDEXDELTA)
    assert TRUCK.from_value(apply_delta(base.to_value(), read)) == truck


def test_text_that_is_not_utf8_is_kept() -> None:
    value = new_value(MODEL, "TRUCK", {"name": b"\xff\xfe"})
    truck = TRUCK.from_value(value)
    assert truck.encode() == encode_nclass(value)
    assert TRUCK(name=b"\xff\xfe") == truck
    assert TRUCK.from_dict(truck.to_dict()) == truck


@pytest.mark.slow
def test_the_stub_is_what_a_type_checker_needs(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy checks the stub")
    (tmp_path / "fleet.blz").write_text(SOURCE)
    (tmp_path / "fleet.pyi").write_text(stub_of(MODEL, "fleet.blz"))
    (tmp_path / "fleet.py").write_text(
        "from wireloom.formats.blaze.classes import install\n\ninstall(__name__, 'fleet.blz')\n"
    )
    user = tmp_path / "user.py"
    user.write_text(
        "from wireloom.services.blaze import Client, SyncClient\n"
        "from fleet import GAUGE, MODEL, POINT, TRUCK\n\n"
        "truck = TRUCK(truck_id=1, gauge=GAUGE.GAUGE_Low, stops={1: POINT(x=2)}, class_='a')\n"
        "truck.temps[0] = truck.home.x + 1\n"
        "text: str = truck.replace(name='x').name\n"
        "raw: bytes = truck.raw\n\n"
        "async def main(client: Client) -> None:\n"
        "    await client.insert(truck)\n"
        "    async for event in client.subscribe(TRUCK):\n"
        "        name: str = event.object.name\n"
        "        print(name, MODEL.name)\n\n"
        "def work(client: SyncClient) -> list[int]:\n"
        "    return [event.object.truck_id for event in client.subscribe(TRUCK)]\n"
    )
    check = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run([*check, "user.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    user.write_text("from fleet import TRUCK\n\nTRUCK(truck_id='x')\nTRUCK().nam = 5\n")
    done = subprocess.run([*check, "user.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.count("error:") == 2, done.stdout
    code = (
        "import fleet; print(fleet.TRUCK(truck_id=3), fleet.TRUCK.__module__, fleet.GAUGE(9).name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "TRUCK(truck_id=3) fleet GAUGE_High\n"
    assert load_classes(tmp_path / "fleet.blz").TRUCK(truck_id=3) == TRUCK(truck_id=3)


@pytest.mark.slow
def test_names_of_types_may_be_names_of_fields(tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="mypy checks the stub")
    source = """
    enum Mapping
    {
        list
    }
    nclass ModelObject
    {
        @id 1
        int_32 int
        ascii[3] str
        int_32[2] Sequence
        float_32 IntEnum
        bool bool
    }
    """
    model = from_blz(source.replace("    ", ""))
    text = stub_of(model)
    assert "int: _int" in text
    assert "class ModelObject(_ModelObject):" in text
    (tmp_path / "odd.pyi").write_text(text)
    check = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run([*check, "odd.pyi"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert issubclass(classes_of(model)["ModelObject"], ModelObject)
