"""Field dictionaries: which field an id in a QForm message is, of which type and size.

`load` reads any of the files in which such dictionaries come and gives a `Dictionary`::

    from wireloom.formats.qform.dictionary import check, load

    dictionary = load("/etc/sass")            # tss_fields.cf and tss_records.cf, or RDM files
    dictionary = load("RDMFieldDictionary")   # SASS fields made from the RDM fields beside it
    entry = dictionary.get(10721)             # by id; `by_name` and `by_fid` are plain mappings
    entry.name, entry.md_type, entry.kind, entry.size

    for problem in check("/etc/sass"):        # all that is odd, with file and line
        print(problem)

One module per file format, each with `parse_*` (text → object, raises `SourceError`) and `scan_*`
(the same, but an error is one of the object's `problems` and what could be read stays):

===============  ================================================================================
``cfile``        `tss_fields.cf` and `tss_records.cf` → `Dictionary`; ``writer`` writes them
``rdm``          `RDMFieldDictionary` → `RdmDictionary`
``enumtype``     `enumtype.def` → `EnumTables`
``flist``        `flistmapping` → `FlistMapping`
``sass``         `RdmDictionary` → `Dictionary`
``carried``      the `FIDS` submessage of a TibMsg ↔ `Dictionary`
===============  ================================================================================

Parsers take ``dialect="reference"`` to repeat the quirks of the reference implementation, which
recorded the golden vectors; `verify_case` checks one of those. The languages, the decisions taken
and the differences between the dialects are in `SPEC.md` beside this file.
"""

from __future__ import annotations

from wireloom.formats.qform.dictionary.carried import Triple, from_triples, to_triples
from wireloom.formats.qform.dictionary.cfile import parse_cfile, scan_cfile
from wireloom.formats.qform.dictionary.enumtype import parse_enumtype, scan_enumtype
from wireloom.formats.qform.dictionary.flist import FlistMapping, parse_flist, scan_flist
from wireloom.formats.qform.dictionary.loading import FileKind, check, detect, load, load_rdm
from wireloom.formats.qform.dictionary.model import (
    MAX_FID,
    Dialect,
    Dictionary,
    Entry,
    Kind,
    MdType,
    Member,
    Problem,
    TssType,
)
from wireloom.formats.qform.dictionary.rdm import parse_rdm, scan_rdm
from wireloom.formats.qform.dictionary.rdm_model import (
    EnumTable,
    EnumTables,
    RdmDictionary,
    RdmEntry,
)
from wireloom.formats.qform.dictionary.sass import to_sass
from wireloom.formats.qform.dictionary.source import Source
from wireloom.formats.qform.dictionary.verify import verify_case
from wireloom.formats.qform.dictionary.writer import to_cfile

__all__ = [
    "MAX_FID",
    "Dialect",
    "Dictionary",
    "Entry",
    "EnumTable",
    "EnumTables",
    "FileKind",
    "FlistMapping",
    "Kind",
    "MdType",
    "Member",
    "Problem",
    "RdmDictionary",
    "RdmEntry",
    "Source",
    "Triple",
    "TssType",
    "check",
    "detect",
    "from_triples",
    "load",
    "load_rdm",
    "parse_cfile",
    "parse_enumtype",
    "parse_flist",
    "parse_rdm",
    "scan_cfile",
    "scan_enumtype",
    "scan_flist",
    "scan_rdm",
    "to_cfile",
    "to_sass",
    "to_triples",
    "verify_case",
]
