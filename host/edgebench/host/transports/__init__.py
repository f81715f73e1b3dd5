"""Transports, which open a `Link` to an agent.

    discover ─▶ Announcement          Endpoint ── connect ─▶ Link
       (which devices exist)             (of a known device)

To add a transport, write a file with a class that has `name`, `connect` and `discover`, as
`Transport` in base.py describes. Add the class to registry.py.

A transport that carries a stream to the agent's port, such as a tunnel, derives from
`PinnedTransport` (pinned.py) and defines `name`, `dial` and `discover`. Such a transport shares the
code for TLS, certificate pins, retries, errors, and for watching many devices at once.
"""
