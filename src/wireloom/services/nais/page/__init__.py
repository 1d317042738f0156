"""The page of a simulated board: its LEDs, its button, and what happened."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from wireloom.services.nais.transforms import LEDS
from wireloom.services.nais.urls import is_number
from wireloom.view import escape as printable

if TYPE_CHECKING:
    from wireloom.services.nais.simulator import Board

__all__ = ["page_app"]

_COOKIE = "wireloom-board"
_OWN_REQUEST = "x-wireloom"
"""A header that no page from elsewhere can send without being asked about it first."""
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
Endpoint = Callable[[Request], Awaitable[Response]]


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _state(board: Board) -> dict[str, Any]:
    lit = board.leds.lit
    return {
        **board.status(),
        "leds": {name: bool(lit & bit) for name, bit in LEDS.items()},
        "happened": [printable(line) for line in board.happened],
    }


def _rendered(board: Board) -> str:
    state = _state(board)
    leds = "\n".join(
        f'<button class="led" id="{name}" aria-pressed="{str(lit).lower()}">{name}</button>'
        for name, lit in state["leds"].items()
    )
    happened = "\n".join(f"<li>{escape(line)}</li>" for line in reversed(state["happened"]))
    return Template(_file("board.html")).substitute(
        board=escape(printable(state["board"])),
        connections=state["connections"],
        leds=leds,
        happened=happened,
    )


def page_app(board: Board) -> Starlette:
    """The page as a web application."""

    async def show(_: Request) -> Response:
        return HTMLResponse(_rendered(board))

    async def state(_: Request) -> Response:
        return JSONResponse(_state(board))

    async def script(_: Request) -> Response:
        return Response(_file("board.js"), media_type="text/javascript")

    async def style(_: Request) -> Response:
        return Response(_file("board.css"), media_type="text/css")

    async def switch(request: Request) -> Response:
        bit = LEDS.get(request.path_params["name"])
        if bit is None:
            return JSONResponse({"error": "no such LED"}, 404)
        board.leds.lit ^= bit
        board.note(f"{request.path_params['name']} switched on the page")
        return JSONResponse(_state(board))

    async def press(_: Request) -> Response:
        from wireloom.services.nais.simulator import BUTTON_EVENT

        await board.send_event(BUTTON_EVENT)
        return JSONResponse(_state(board))

    def guarded(endpoint: Endpoint) -> Endpoint:
        async def guard(request: Request) -> Response:
            response = _refusal(board, request) or await endpoint(request)
            response.headers.update(_HEADERS)
            return response

        return guard

    return Starlette(
        routes=[
            Route("/", guarded(show)),
            Route("/state", guarded(state)),
            Route("/board.js", guarded(script)),
            Route("/board.css", guarded(style)),
            Route("/leds/{name}", guarded(switch), methods=["POST"]),
            Route("/press", guarded(press), methods=["POST"]),
        ]
    )


def _refusal(board: Board, request: Request) -> Response | None:
    """Why a request is not answered: a foreign name, no token, or a foreign page; None: it is."""
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    if not board.page_token and not is_number(host) and host != "localhost":
        return JSONResponse({"error": "this page is at an address, not at a name"}, 421)
    if board.page_token:
        said = request.query_params.get("token")
        if said is not None and _same(said, board.page_token):
            response = RedirectResponse("/", 303)
            response.set_cookie(_COOKIE, board.page_token, httponly=True, samesite="strict")
            return response
        if not _same(request.cookies.get(_COOKIE, ""), board.page_token):
            return JSONResponse({"error": "a token is needed: /?token=…"}, 401)
    if request.method == "POST" and request.headers.get(_OWN_REQUEST) != "1":
        return JSONResponse({"error": "only this page may do that"}, 403)
    return None


def _same(said: str, token: str) -> bool:
    return hmac.compare_digest(said.encode(), token.encode())
