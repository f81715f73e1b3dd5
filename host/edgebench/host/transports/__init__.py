"""Ways to reach an agent; each gives a `Link` to it.

    discover ─▶ Announcement          Endpoint ── connect ─▶ Link
       (who is there)                    (of a device that is known)

To add one (a USB serial bridge, `adb forward`, a forward through SSH): write one file with a class
that has `name`, `connect` and `discover` (`Transport` in base.py), and add it to registry.py.
"""
