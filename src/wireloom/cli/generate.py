"""``wireloom generate``: made-up traffic of every format as a capture."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import click

from wireloom.cli._help import Aliased, Command, examples
from wireloom.cli._input import PathOrDash
from wireloom.cli._options import Listed, force_option
from wireloom.cli._output import binary_output
from wireloom.cli._progress import byte_bar
from wireloom.cli._sizes import Size, show_size
from wireloom.errors import OptionError
from wireloom.view import escape

if TYPE_CHECKING:
    from wireloom.generate import Faults, Manifest

__all__ = ["command"]

_PACKED = {"gz": "gzip", "gzip": "gzip", "zst": "zstd", "zstd": "zstd"}
_CONTAINERS = {"raw": "raw", "bin": "raw", "pcap": "pcap", "pcapng": "pcapng"}
_DEFAULT_SIZE = 10_000_000


def _scenarios() -> tuple[str, ...]:
    from wireloom.generate import SCENARIOS

    return SCENARIOS


@click.command(
    cls=Command,
    epilog=examples(
        "wireloom generate -o day.pcapng.zst --size 100MB --seed 1",
        "wireloom generate -o bad.pcap --formats blaze,nrep --faults loss=0.01,reorder=0.05",
        "wireloom generate -o quotes.bin --formats qform --messages 1000 --schemas schemas/",
        "wireloom generate -o - --container pcap | wireloom stat",
    ),
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=PathOrDash(dir_okay=False),
    help="Write the capture there; its suffix chooses the container. - is stdout.",
)
@click.option(
    "--formats",
    cls=Aliased,
    aliases=("-f", "--format"),
    type=Listed(_scenarios),
    multiple=True,
    metavar="A,B,…",
    help="Traffic to make: blaze, nais, nrep, qform, tibmsg, tibrv, or one inside another: "
    "tibmsg-in-tibrv, tibrv-in-nrep, qform-in-blaze. All when left out.",
)
@click.option("--size", type=Size(), help="About how large, before compression.  [default: 10MB]")
@click.option("--messages", type=click.IntRange(min=0), metavar="N", help="How many frames.")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="The same number gives the same bytes."
)
@click.option(
    "--container",
    metavar="KIND",
    help="raw, pcap or pcapng, also with .gz or .zst; as the suffix says when left out.",
)
@click.option(
    "--faults",
    metavar="KIND=SHARE,…",
    help="Share of packets with each fault, such as 0.01 or 1%: loss, reorder, duplicates, "
    "corruption, cut; offload and zero: checksums as network cards leave them.",
)
@click.option("--one-way", is_flag=True, help="Capture only what servers send.")
@click.option(
    "--connections",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    metavar="N",
    help="Sessions of each kind at a time.",
)
@click.option(
    "--symbols",
    type=click.IntRange(min=1),
    default=200,
    show_default=True,
    metavar="N",
    help="Number of instruments in market data.",
)
@click.option(
    "--schemas",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    help="Also write the dictionary, the model and the schema of the messages there.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
@click.option("-q", "--quiet", is_flag=True, help="No progress bar, and no manifest as text.")
@force_option
def command(
    output: str,
    formats: tuple[str, ...],
    size: int | None,
    messages: int | None,
    container: str | None,
    faults: str | None,
    schemas: str | None,
    as_json: bool,
    quiet: bool,
    force: bool,
    **more: Any,
) -> None:
    """Make a capture of realistic traffic, with faults on request.

    The same options always give the same bytes. The manifest says what was written, so that it can
    be compared with what a reader finds: frames by format and type, packets, streams, faults.
    """
    from wireloom.generate import generate, write_schemas

    kind, compression = _container(container, output)
    chosen = [name.strip() for given in formats for name in given.split(",") if name.strip()]
    settings: dict[str, Any] = {
        "size": size,
        "messages": messages,
        "container": kind,
        "compression": compression,
        "faults": _faults(faults),
        **more,
    }
    files = write_schemas(schemas) if schemas else {}
    total = size if size is not None else None if messages is not None else _DEFAULT_SIZE
    with byte_bar(total, quiet) as show:
        settings["progress"] = show
        with binary_output(output, force) as file:
            manifest = generate(cast("BinaryIO", file), chosen or None, **settings)
    is_free = output != "-"
    if as_json:
        click.echo(json.dumps(manifest.to_dict(), indent=2), err=not is_free)
    elif not quiet:
        for line in _lines(manifest, output):
            click.echo(line, err=not is_free)
    if not quiet:
        for option, path in files.items():
            click.echo(f"to read it: --{option} {escape(str(path))}", err=True)


def _container(given: str | None, output: str) -> tuple[str, str]:
    """Container and compression: as given, or from the suffixes of the file."""
    text = given if given is not None else "".join(Path(output).suffixes[-2:])
    parts = [part for part in text.lower().split(".") if part]
    compression = _PACKED[parts.pop()] if parts and parts[-1] in _PACKED else ""
    kind = parts[-1] if parts else ""
    if kind in _CONTAINERS and (given is None or len(parts) == 1):
        return _CONTAINERS[kind], compression
    if given is not None and not (not parts and compression):
        known = "raw, pcap or pcapng, with or without .gz or .zst"
        raise OptionError(f"no container {given!r}; there are {known}")
    if given is None and kind and output != "-" and Path(output).suffix:
        known = ", ".join(f".{name}" for name in _CONTAINERS)
        raise OptionError(
            f"{output}: .{kind} is no suffix of a capture; there are {known}, "
            "also with .gz or .zst, or choose with --container"
        )
    return "pcapng", compression


def _faults(text: str | None) -> Faults:
    from wireloom.generate import Faults

    known = [each.name for each in dataclasses.fields(Faults)]
    found: dict[str, Any] = {}
    for part in (text or "").split(","):
        if not part.strip():
            continue
        name, equals, value = (each.strip() for each in part.partition("="))
        if name not in known or not equals:
            raise OptionError(f"{part!r} is not KIND=SHARE; kinds are {', '.join(known)}")
        try:
            if name == "distance":
                found[name] = int(value)
            else:
                number = value.removesuffix("%")
                found[name] = float(number) / (100 if value.endswith("%") else 1)
        except ValueError:
            raise OptionError(f"{part!r}: {value!r} is not a number") from None
    return Faults(**found)


def _lines(manifest: Manifest, output: str) -> list[str]:
    """The manifest for people."""
    where = "" if output == "-" else f"{escape(output)}: "
    packed = f", {manifest.compression}" if manifest.compression else ""
    lines = [
        f"{where}{manifest.container}{packed}, {show_size(manifest.size)}, "
        f"{manifest.messages:,} frames, {manifest.packets:,} packets, "
        f"{manifest.streams:,} streams, seed {manifest.seed}"
    ]
    for name, types in sorted(manifest.frames.items()):
        listed = ", ".join(f"{number:,} {type}" for type, number in sorted(types.items()))
        lines.append(f"  {name:8} {listed}")
    for title, numbers in (("inside", manifest.nested), ("faults", manifest.faults)):
        if numbers:
            listed = ", ".join(f"{number:,} {name}" for name, number in sorted(numbers.items()))
            lines.append(f"  {title:8} {listed}")
    if manifest.hit:
        listed = ", ".join(f"{number:,} {name}" for name, number in sorted(manifest.hit.items()))
        lines.append(f"  hit      {listed} frames")
    if manifest.ports:
        listed = ",".join(f"{port}={name}" for port, name in sorted(manifest.ports.items()))
        lines.append(f"  ports    {listed}")
    return lines
