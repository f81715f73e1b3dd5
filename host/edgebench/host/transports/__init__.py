"""Ways to reach an agent; each gives a `Link` to it.

    discover ─▶ Announcement          Endpoint ── connect ─▶ Link
       (who is there)                    (of a device that is known)

To add one, write one file with a class that has `name`, `connect` and `discover` (`Transport` in
base.py), and add it to registry.py. One that carries a stream to the agent's port, as a tunnel
does, derives from `PinnedTransport` (pinned.py) and has `name`, `dial` and `discover`: TLS, pins,
retries, errors and the following of many devices at once are shared.
"""
