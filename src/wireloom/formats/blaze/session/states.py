"""The states of Blaze sessions, and every transition between them, as data (SPEC §8).

The sessions make each transition through these tables, and the diagrams in SPEC.md are drawn from
them: what is not here cannot happen.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeVar

from wireloom.sessions import Transitions

__all__ = [
    "CLIENT",
    "CLIENT_SUBSCRIPTION",
    "CLIENT_TRANSACTION",
    "SERVER",
    "SERVER_SUBSCRIPTION",
    "SERVER_TRANSACTION",
    "TABLES",
    "Act",
    "ClientState",
    "Feed",
    "Flight",
    "ServerState",
    "Service",
    "Work",
]


class _Named(Enum):
    """Members are unique, so their address serves as a fast hash."""

    __hash__ = object.__hash__


class ClientState(_Named):
    """The state of a client's connection."""

    ESTABLISHED = "established"
    """TCP is connected, nothing was sent."""
    WAIT_CONRES = "wait_conres"
    CONNECTED = "connected"
    REFUSED = "refused"
    DISCONNECTING = "disconnecting"
    """Pending transactions may end, nothing new is asked for; then DSCOND."""
    CLOSED = "closed"


class ServerState(_Named):
    """The state of a server's side of a connection."""

    ACCEPTED = "accepted"
    """TCP is connected, CONREQ is awaited."""
    DECIDING = "deciding"
    """The application decides on a CONREQ."""
    CONNECTED = "connected"
    DRAINING = "draining"
    """Pending transactions may end, nothing new is accepted."""
    CLOSED = "closed"


class Flight(_Named):
    """The state of a client's transaction."""

    FLYING = "flying"
    ANSWERED = "answered"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    LOST = "lost"


class Work(_Named):
    """The state of a transaction in the server."""

    RECEIVED = "received"
    REJECTED = "rejected"
    FLYING = "flying"
    ANSWERED = "answered"
    TIMED_OUT = "timed_out"
    ABORTED = "aborted"


class Feed(_Named):
    """The state of a client's subscription."""

    REQUESTED = "requested"
    CANCELLED = "cancelled"
    """Given up before the answer came; an SBSOK is answered by SBSTOP."""
    ACTIVE = "active"
    STOPPING = "stopping"
    ENDED = "ended"


class Service(_Named):
    """The state of a subscription in the server."""

    REQUESTED = "requested"
    DOWNLOADING = "downloading"
    LIVE = "live"
    ENDING = "ending"
    """The download of a PAST subscription is over, STOP waits for its place in the window."""
    ENDED = "ended"


class Act(_Named):
    """What leads from one state to the next; a packet's name says that it has arrived."""

    ACCEPT = "accept"
    """This side agrees."""
    ACCEPTED = "accepted"
    """The other side agrees: CONRES 1 or 2, SBSOK, SBSPART."""
    CANCEL = "cancel"
    """The caller no longer wants it."""
    CLOSE = "close"
    """This side ends it at once."""
    CONNECT = "connect"
    """CONREQ is sent."""
    CONREQ = "conreq"
    DISCONNECT = "disconnect"
    """The caller wants to leave gracefully."""
    DONE = "done"
    """Nothing is pending any more, or the time for that is over."""
    DOWNLOADED = "downloaded"
    """The last stored object was sent."""
    DOWNLOADED_PAST = "downloaded_past"
    """The same, and no changes are wanted."""
    DRAIN = "drain"
    """The broker shuts down."""
    DSCOND = "dscond"
    INACTIVITY = "inactivity"
    """The peer was silent for too long."""
    LOST = "lost"
    """The connection has ended."""
    REFUSE = "refuse"
    """This side does not agree."""
    REFUSED = "refused"
    """The other side does not agree: CONRES 3, SBSKO."""
    RESPOND = "respond"
    """The application has answered."""
    SBSSPR = "sbsspr"
    SBSTOP = "sbstop"
    START_DOWNLOAD = "start_download"
    START_LIVE = "start_live"
    STOP = "stop"
    """The server ends a subscription: SBSEVT STOP."""
    TIMEOUT = "timeout"
    """An answer has not come in time."""
    TXRESP = "txresp"
    VIOLATION = "violation"
    """The peer has broken a rule."""


_ENDS = "CLOSE DSCOND INACTIVITY VIOLATION LOST"
_SERVER_ENDS = "CLOSE DSCOND VIOLATION LOST"

_S = TypeVar("_S", bound=Enum)


def _all(state: _S, after: _S, *acts: str) -> list[tuple[_S, Act, _S]]:
    """The same transition for several triggers."""
    return [(state, Act[name], after) for name in " ".join(acts).split()]


CLIENT = Transitions(
    ClientState.ESTABLISHED,
    [
        (ClientState.ESTABLISHED, Act.CONNECT, ClientState.WAIT_CONRES),
        (ClientState.ESTABLISHED, Act.CLOSE, ClientState.CLOSED),
        (ClientState.ESTABLISHED, Act.VIOLATION, ClientState.CLOSED),
        (ClientState.ESTABLISHED, Act.LOST, ClientState.CLOSED),
        (ClientState.WAIT_CONRES, Act.ACCEPTED, ClientState.CONNECTED),
        (ClientState.WAIT_CONRES, Act.REFUSED, ClientState.REFUSED),
        *_all(ClientState.WAIT_CONRES, ClientState.CLOSED, "CLOSE DSCOND TIMEOUT VIOLATION LOST"),
        (ClientState.CONNECTED, Act.DISCONNECT, ClientState.DISCONNECTING),
        *_all(ClientState.CONNECTED, ClientState.CLOSED, _ENDS),
        (ClientState.CONNECTED, Act.REFUSED, ClientState.CLOSED),
        (ClientState.DISCONNECTING, Act.DONE, ClientState.CLOSED),
        *_all(ClientState.DISCONNECTING, ClientState.CLOSED, _ENDS),
        (ClientState.DISCONNECTING, Act.REFUSED, ClientState.CLOSED),
    ],
    final=[ClientState.REFUSED, ClientState.CLOSED],
)

SERVER = Transitions(
    ServerState.ACCEPTED,
    [
        (ServerState.ACCEPTED, Act.CONREQ, ServerState.DECIDING),
        *_all(ServerState.ACCEPTED, ServerState.CLOSED, "REFUSE DRAIN TIMEOUT", _SERVER_ENDS),
        (ServerState.DECIDING, Act.ACCEPT, ServerState.CONNECTED),
        *_all(ServerState.DECIDING, ServerState.CLOSED, "REFUSE DRAIN TIMEOUT", _SERVER_ENDS),
        (ServerState.CONNECTED, Act.DRAIN, ServerState.DRAINING),
        *_all(ServerState.CONNECTED, ServerState.CLOSED, "REFUSE INACTIVITY", _SERVER_ENDS),
        (ServerState.DRAINING, Act.DONE, ServerState.CLOSED),
        *_all(ServerState.DRAINING, ServerState.CLOSED, "REFUSE INACTIVITY", _SERVER_ENDS),
    ],
    final=[ServerState.CLOSED],
)

CLIENT_TRANSACTION = Transitions(
    Flight.FLYING,
    [
        (Flight.FLYING, Act.TXRESP, Flight.ANSWERED),
        (Flight.FLYING, Act.TIMEOUT, Flight.TIMED_OUT),
        (Flight.FLYING, Act.CANCEL, Flight.CANCELLED),
        (Flight.FLYING, Act.LOST, Flight.LOST),
    ],
    final=[Flight.ANSWERED, Flight.TIMED_OUT, Flight.CANCELLED, Flight.LOST],
)

SERVER_TRANSACTION = Transitions(
    Work.RECEIVED,
    [
        (Work.RECEIVED, Act.REFUSE, Work.REJECTED),
        (Work.RECEIVED, Act.ACCEPT, Work.FLYING),
        (Work.FLYING, Act.RESPOND, Work.ANSWERED),
        (Work.FLYING, Act.TIMEOUT, Work.TIMED_OUT),
        (Work.FLYING, Act.DRAIN, Work.ABORTED),
        (Work.FLYING, Act.LOST, Work.ABORTED),
    ],
    final=[Work.REJECTED, Work.ANSWERED, Work.TIMED_OUT, Work.ABORTED],
)

CLIENT_SUBSCRIPTION = Transitions(
    Feed.REQUESTED,
    [
        (Feed.REQUESTED, Act.ACCEPTED, Feed.ACTIVE),
        (Feed.REQUESTED, Act.REFUSED, Feed.ENDED),
        (Feed.REQUESTED, Act.CANCEL, Feed.CANCELLED),
        (Feed.REQUESTED, Act.TIMEOUT, Feed.CANCELLED),
        (Feed.REQUESTED, Act.LOST, Feed.ENDED),
        (Feed.CANCELLED, Act.ACCEPTED, Feed.STOPPING),
        (Feed.CANCELLED, Act.REFUSED, Feed.ENDED),
        (Feed.CANCELLED, Act.LOST, Feed.ENDED),
        (Feed.ACTIVE, Act.CANCEL, Feed.STOPPING),
        (Feed.ACTIVE, Act.STOP, Feed.ENDED),
        (Feed.ACTIVE, Act.LOST, Feed.ENDED),
        (Feed.STOPPING, Act.SBSSPR, Feed.ENDED),
        (Feed.STOPPING, Act.STOP, Feed.STOPPING),
        (Feed.STOPPING, Act.TIMEOUT, Feed.ENDED),
        (Feed.STOPPING, Act.LOST, Feed.ENDED),
    ],
    final=[Feed.ENDED],
)

SERVER_SUBSCRIPTION = Transitions(
    Service.REQUESTED,
    [
        (Service.REQUESTED, Act.REFUSE, Service.ENDED),
        (Service.REQUESTED, Act.START_DOWNLOAD, Service.DOWNLOADING),
        (Service.REQUESTED, Act.START_LIVE, Service.LIVE),
        (Service.REQUESTED, Act.LOST, Service.ENDED),
        (Service.DOWNLOADING, Act.DOWNLOADED, Service.LIVE),
        (Service.DOWNLOADING, Act.DOWNLOADED_PAST, Service.ENDING),
        *_all(Service.DOWNLOADING, Service.ENDED, "SBSTOP STOP LOST"),
        *_all(Service.LIVE, Service.ENDED, "SBSTOP STOP LOST"),
        *_all(Service.ENDING, Service.ENDED, "SBSTOP STOP LOST"),
    ],
    final=[Service.ENDED],
)

TABLES = {
    "CLIENT": CLIENT,
    "SERVER": SERVER,
    "CLIENT_TRANSACTION": CLIENT_TRANSACTION,
    "SERVER_TRANSACTION": SERVER_TRANSACTION,
    "CLIENT_SUBSCRIPTION": CLIENT_SUBSCRIPTION,
    "SERVER_SUBSCRIPTION": SERVER_SUBSCRIPTION,
}
"""Every table, by the name that its diagram has in SPEC.md."""
