"""Golden cases of dictionary files: cfile, and RDM with its SASS mapping."""

from __future__ import annotations

from wireloom.formats.qform.dictionary.verify import verify_case
from wireloom.testing.vectors import Case

__all__ = ["Verifier"]


class Verifier:
    """Checks cases whose format is ``cfile`` or ``rdm``."""

    def accepts(self, case: Case) -> bool:
        """Whether the case is a dictionary file."""
        return case.get("format") in ("cfile", "rdm")

    def check(self, case: Case) -> str | None:
        """None when parsing gives the case's entries, else what differs."""
        return verify_case(case)
