"""Every format of the registry does what `wireloom.testing.conformance` asks of it."""

from __future__ import annotations

import pytest

import wireloom
from wireloom.formats import get
from wireloom.testing import conformance

SAMPLES = [
    pytest.param(name, sample, id=f"{name}: {sample}")
    for name in wireloom.formats()
    for sample in get(name).samples()
]


@pytest.mark.parametrize("check", conformance.SAMPLE_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize(("name", "sample"), SAMPLES)
def test_every_sample(check: conformance.SampleCheck, name: str, sample: str) -> None:
    check(get(name), sample, get(name).samples()[sample])


@pytest.mark.parametrize("check", conformance.FORMAT_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", wireloom.formats())
def test_every_format(check: conformance.FormatCheck, name: str) -> None:
    check(get(name))


@pytest.mark.parametrize("name", wireloom.formats())
def test_the_name_in_the_registry_is_the_format_s_own(name: str) -> None:
    assert get(name).name == name


@pytest.mark.parametrize(("name", "sample"), SAMPLES)
def test_detect_never_takes_a_sample_for_another_format(name: str, sample: str) -> None:
    data = get(name).samples()[sample]
    found = wireloom.detect(data)
    # A format without magic may be unsure of a short message, but not mistaken.
    assert found in ((name,) if get(name).detect(data) >= 90 else (name, None))


# Not for every format: one with escapes carries other bytes than those it is written in.
@pytest.mark.parametrize("name", ["blaze", "nais", "nrep", "qform", "tibmsg", "tibrv"])
def test_payloads_are_bytes_of_the_message(name: str) -> None:
    for data in get(name).samples().values():
        assert all(payload in data for _, payload in wireloom.decode(data, name).payloads())
