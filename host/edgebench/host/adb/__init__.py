"""Phones through the adb server of this machine, which holds their cables.

    AdbServer ── smart socket, TCP 5037 ──▶ adb server ── USB or Wi-Fi ──▶ adbd on the phone
    (server.py)                            (`adb start-server`)           shell, files, ports

No library and no port forward: each request is a connection of its own, on which the server, once
it has agreed, passes bytes between us and a service on the phone. The program `adb` is run only to
start the server. Source: Android Open Source Project, packages/modules/adb, docs/dev/overview.md,
services.md and protocol.md.
"""
