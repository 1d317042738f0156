"""What the broker counts, and when it says which code: for it and for the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from wireloom.formats.blaze.codes import BlazeCode, DisconnectReason, RefusalCode
from wireloom.services._shell.declared import MetricInfo

__all__ = ["DISCONNECTS", "METRICS", "REFUSALS", "RESULTS", "code_rows"]

METRICS: Final[Mapping[str, MetricInfo]] = {
    info.name: info
    for info in (
        MetricInfo(
            "transactions",
            "counter",
            "Transactions that came as far as hooks or store.",
            ("action", "outcome"),
        ),
        MetricInfo(
            "transaction_seconds", "histogram", "From a transaction's arrival to its answer."
        ),
        MetricInfo("flying", "gauge", "Transactions without an answer."),
        MetricInfo("handler_failures", "counter", "Hooks that raised.", ("hook",)),
        MetricInfo("sessions", "gauge", "Sessions by state.", ("state",)),
        MetricInfo(
            "oddities",
            "counter",
            "What peers did that is odd but harmless, or wrong.",
            ("what",),
        ),
        MetricInfo("subscriptions", "gauge", "Subscriptions by class.", ("nclass",)),
        MetricInfo("changes", "counter", "Changes that came from the store.", ("nclass",)),
        MetricInfo("events", "counter", "Events that were sent to subscribers."),
        MetricInfo("queued_changes", "gauge", "Changes that wait in all subscriptions."),
        MetricInfo("longest_queue", "gauge", "Changes that wait in the longest subscription."),
        MetricInfo(
            "slow_consumers",
            "counter",
            "Subscribers that were too slow, by what was done.",
            ("action",),
        ),
        MetricInfo("held_reads", "counter", "How often a peer was not read from.", ("reason",)),
        MetricInfo("store_up", "gauge", "1 when the database answered last time."),
        MetricInfo("store_pending", "gauge", "Writes that wait."),
        MetricInfo("store_writes", "counter", "Writes that were answered."),
        MetricInfo("store_commits", "counter", "Groups of writes that were made durable."),
        MetricInfo("store_failures", "counter", "Groups that had to be tried again, or failed."),
        MetricInfo("store_commit_seconds", "gauge", "How long the last commit took."),
        MetricInfo("store_foreign_changes", "counter", "Changes of other brokers."),
        MetricInfo("store_gaps", "counter", "How often changes of other brokers were lost."),
    )
}
"""Every metric of the broker itself, by name; connections are counted by the shell."""

REFUSALS: Final[Mapping[RefusalCode, str]] = {
    RefusalCode.UNSPECIFIED_REASON: "the application's hook has refused the client; 2017 says 10",
    RefusalCode.SERVER_ERROR: "the store gives no CONNID, or the hook has failed",
    RefusalCode.SERVER_IS_GOING_DOWN: "the broker drains",
    RefusalCode.TOO_MANY_CONNECTIONS: "`limits.max_connections` are connected",
    RefusalCode.PROTOCOL_VERSION_TOO_OLD: "PROVER is not 1, older or newer",
    RefusalCode.ALREADY_CONNECTED: "CONREQ came twice",
    RefusalCode.SERVER_HAS_CHANGED_HEARTBEAT_INTERVAL: (
        "accepted with reserve: HBTSEC is outside the limits, AGRHBT counts"
    ),
    RefusalCode.INVALID_CONNECTION_STATUS: "CONREQ came again while the broker drains",
}
"""ERRCOD of CONRES."""

DISCONNECTS: Final[Mapping[DisconnectReason, str]] = {
    DisconnectReason.UNSPECIFIED_REASON: "the client has sent what is no packet, or is not legal",
    DisconnectReason.SERVER_IS_GOING_DOWN: "the broker has drained",
    DisconnectReason.PEER_INACTIVITY: "the client was silent, and TSTREQ was not answered",
    DisconnectReason.INVALID_CONNECTION_STATUS: (
        "a packet before the connection was agreed, for the other side, in another version, or"
        " with another CONNID"
    ),
}
"""DISRES of DSCOND."""

RESULTS: Final[Mapping[BlazeCode, str]] = {
    BlazeCode.NO_ERROR: "done, and durable; a PAST subscription has ended",
    BlazeCode.SERVER_ERROR: (
        "the store cannot write or has too much to do, too many transactions fly or subscriptions"
        " are there; as a STOP: the subscriber was too slow, or changes were lost: resume"
    ),
    BlazeCode.APPLICATION_ERROR: (
        "a handler has refused or failed; the object exists (INS), or does not (UPD, DLT, DEL)"
    ),
    BlazeCode.REQUEST_MALFORMED: (
        "not legal: unknown action or class, a body that is no object, one without its key"
    ),
    BlazeCode.REQUEST_UNSUPPORTED: (
        "TXTYPE, encoding or action that is not served; a subscription to an unknown class"
    ),
    BlazeCode.REASON_IN_RESULT_NCLASS: "a handler has refused, and the result says why",
    BlazeCode.SECURITY_ERROR: "the application's verdict",
    BlazeCode.UNAUTHENTICATED: "the application's verdict",
    BlazeCode.UNAUTHORIZED: "the application's verdict",
    BlazeCode.INVALID_TRANSACTION_ID: "TXCNID is not CONNID, or TXPRID is 0",
    BlazeCode.DUPLICATED_TRANSACTION_ID: "the id was answered before",
    BlazeCode.TRANSACTION_ALREADY_FLYING: "the id is not answered yet; the first is untouched",
    BlazeCode.TRANSACTION_TIMEOUT: (
        "`transactions.timeout_s` are over; whether it was carried out is not known"
    ),
    BlazeCode.SERVER_ABORTED: "the broker drains",
    BlazeCode.SBS_ALREADY_STARTED: "there is a subscription to the class on this connection",
    BlazeCode.SBS_NOT_FOUND: "SBSTOP of a subscription that is none",
}
"""BLZCOD of TXRESP, SBSRES, SBSEVT STOP and SBSSPR."""


def code_rows() -> Iterator[tuple[str, int, str, str]]:
    """Field, number, name and when, of all."""
    for field, table in (("ERRCOD", REFUSALS), ("DISRES", DISCONNECTS), ("BLZCOD", RESULTS)):
        for code, text in table.items():
            yield field, int(code), code.name, text
