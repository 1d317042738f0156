"""``wireloom serve``: live services. One JSON line on stdout says that they are ready."""

from __future__ import annotations

import click

from wireloom.cli._help import Group, examples

__all__ = ["command"]


@click.group(
    cls=Group,
    late={name: f"wireloom.cli._serve_{name}" for name in ("blaze", "nais", "nrep")},
    epilog=examples(
        "wireloom serve blaze --model fleet.blz --store sqlite:///fleet.db",
        "wireloom serve nais --line board=tcp://127.0.0.1:3001 --line web=tcp://127.0.0.1:3002"
        " --route board-web",
        "wireloom serve nrep --listen 127.0.0.1:6700 --discovery 127.0.0.1:2888",
    ),
)
def command() -> None:
    """Run a live service until it is told to stop (Ctrl-C or SIGTERM)."""
