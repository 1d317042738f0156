"""Sphinx settings. `./run docs` builds with every warning an error."""

import sys
from importlib.metadata import version as installed_version
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import generate  # noqa: E402 (it is found through the line above)

generate.write_pages(HERE)

project = "Wireloom"
author = "The Wireloom maintainers"
project_copyright = author
version = release = installed_version("wireloom")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
html_theme = "furo"
html_title = f"Wireloom {release}"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# `name` in a docstring links where there is something to link to.
default_role = "py:obj"
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True

nitpicky = True
# The standard library's and other packages' names cannot be resolved without fetching their
# inventories, and a build must not need the internet. Ours are all checked, but for private ones,
# and for where a package defines what its pages show under the package's own name.
nitpick_ignore_regex = [
    ("py:.*", r"(?!wireloom\.).*"),
    ("py:.*", r"wireloom\..*\._\w+"),
    ("py:.*", r"wireloom\.(captures|columnar|formats|services|tabulate)\.\w+\..*"),
]
# `object` and `type` in a signature are Python's, and also attributes of several classes here.
suppress_warnings = ["ref.python"]
