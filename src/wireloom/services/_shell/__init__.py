"""What all live services share: settings, connections, limits, TLS, tap, metrics, logs, drain.

A service is a sans-I/O session or router of a format, in this shell. Nothing here knows a format.

| module | what it has |
|---|---|
| `settings`, `sections` | settings declared once, for TOML, the command line and the docs |
| `connections` | `Hub` and `Peer`: admitted, counted, tapped, held to quotas |
| `tap` | traffic as rotated pcapng files |
| `side` | `/metrics`, `/healthz`, `/readyz`, `/status` |
| `program` | ready line, signals, drain |
| `tasks`, `logs`, `tls`, `addresses` | what their names say |
"""
