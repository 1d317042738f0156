"""What the tests of the columnar path share: either kernel."""

from __future__ import annotations

import pytest

from wireloom import kernel as kernels


@pytest.fixture(params=["compiled", "interpreted"])
def kernel(request):
    if request.param == "interpreted":
        return kernels.interpreted()
    if not kernels.is_compiled():
        pytest.skip("the kernel is not compiled")
    return kernels.load()
