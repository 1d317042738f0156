"""What a simulated board can be told; light to import, so that help is quick."""

from __future__ import annotations

from dataclasses import dataclass

from wireloom.errors import OptionError
from wireloom.services._shell.addresses import Address
from wireloom.services._shell.sections import ProgramSettings
from wireloom.services._shell.settings import section, setting
from wireloom.services.nais.faults import FAULTS, Faults
from wireloom.services.nais.urls import Url

__all__ = ["BoardSettings"]

SCHEMES = ("tcp", "tls", "ws", "wss", "serial", "mqtt", "mqtts")


@dataclass(frozen=True, slots=True)
class BoardSettings:
    """All that ``wireloom nais board`` can be told."""

    connect: str = setting(
        "",
        "Connect there, and again when it is lost: tcp://, tls://, ws:// or wss://HOST:PORT,"
        " mqtt://HOST/TOPIC, serial:///dev/ttyUSB0.",
        flag="--connect",
        metavar="URL",
    )
    listen: Address | None = setting(
        None, "Wait for TCP connections there instead.", flag="--listen", metavar="HOST:PORT"
    )
    token: str = setting("", "What the other end wants to hear.", flag="--token", is_secret=True)
    network: str = setting("local", "Name of the board's network.")
    board: str = setting("board", "Name of the board.", flag="--name")
    event_every_s: float = setting(0.0, "Report an event every so many seconds; 0: never.")
    event_id: int = setting(12, "Which event; 12 is a movement.")
    fault: tuple[str, ...] = setting(
        (), f"A fault: {', '.join(FAULTS)}; may be repeated.", flag="--fault", metavar="FAULT"
    )
    fault_rate: float = setting(0.2, "Which part of the frames has it, from 0 to 1.")
    bytes_per_s: int = setting(500, "Speed of a slow board.")
    seed: int = setting(0, "The same number gives the same faults.")
    page: Address | None = setting(
        None, "Serve a page with the LEDs there.", flag="--page", metavar="HOST:PORT"
    )
    page_token: str = setting(
        "",
        "What the page wants to hear, as /?token=…; needed where other machines reach it.",
        flag="--page-token",
        is_secret=True,
    )
    program: ProgramSettings = section(ProgramSettings)

    def check(self) -> None:
        """Whether it makes sense.

        Raises:
            OptionError: it does not.
        """
        if bool(self.connect) == (self.listen is not None):
            raise OptionError("a board needs one of --connect and --listen")
        if self.connect:
            Url.parse(self.connect, SCHEMES)
        if self.page is not None and not self.page.is_loopback and not self.page_token:
            raise OptionError("--page at an address that others reach needs --page-token")
        Faults.of(self.fault, self.fault_rate, self.bytes_per_s)
