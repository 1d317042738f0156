"""Blaze in columns: header tables for the kernel's scanner, enums by dialect, the body's column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wireloom.columns import (
    Column,
    Columns,
    Enums,
    Exchange,
    Shape,
    Table,
    declared_shapes,
    numbers,
)
from wireloom.formats.blaze.dialects import DOCUMENT, DOCUMENT_ENUMS, enum_of, get_dialect
from wireloom.formats.blaze.frames import FORMS
from wireloom.formats.blaze.packets import VERSION
from wireloom.kernel.frames import framerules
from wireloom.layout import Packet
from wireloom.wire import Limits

if TYPE_CHECKING:
    from wireloom.arrow.bodies import Bodies

__all__ = ["COLUMNS", "BlazeColumns"]


class BlazeColumns(Columns):
    """How Blaze becomes columns."""

    payload = "body"
    extra = (Column("nclass", "text", "the body's values in JSON, when a model is given"),)
    body = "nclass"
    body_options = ("model", "subscriptions")
    exchanges = (
        Exchange("TXRQST", "TXRESP", ("txplid", "txsvid", "txcnid", "txprid")),
        Exchange("SBSREQ", "SBSRES", ("rqstid",)),
    )
    least_frame = 4

    def scan(self, kernel: Any, framer: Any, limits: Limits) -> Any:
        """Header length and place of PKTLEN for each HDRLEN and PKTTYP; the version."""
        keys = framerules.BLAZE_KEYS
        table = numbers(2 * keys + 4)
        for key, form in FORMS.items():
            table[2 * key] = form.header_len
            table[2 * key + 1] = form.pktlen_at
            table[2 * keys + (key >> 8)] = 1
        made = (framerules.FORMAT_BLAZE, table, VERSION)
        return kernel.Scan(kernel.HeaderRules(*made, limits.max_frame, False))

    def shapes(
        self, packets: Sequence[type[Packet]], limits: Limits, strict: bool, options: Any
    ) -> tuple[list[Shape], Enums]:
        """The declared forms; the dialect's enums."""
        dialect = get_dialect(options.get("dialect", DOCUMENT))
        return declared_shapes(packets), {name: enum_of(dialect, name) for name in DOCUMENT_ENUMS}

    def bodies(
        self,
        options: Mapping[str, Any],
        *,
        table: Table,
        limits: Limits,
        strict: bool,
        kernel: Any,
    ) -> Bodies | None:
        """What reads objects of the model's classes; None without a model."""
        if options.get("model") is None:
            return None
        from wireloom.formats.blaze.bodies.decoder import BodyDecoder  # late: it needs Arrow

        return BodyDecoder(
            options["model"],
            table,
            subscriptions=options.get("subscriptions"),
            dialect=options.get("dialect", DOCUMENT),
            limits=limits,
            strict=strict,
            kernel=kernel,
        )

    def is_told(self, options: Mapping[str, Any]) -> bool:
        """With a model: a subscription says of which class the events are."""
        return options.get("model") is not None


COLUMNS = BlazeColumns()
