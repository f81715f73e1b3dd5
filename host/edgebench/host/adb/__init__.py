"""Access to phones through the adb server of this machine.

    AdbServer ── smart socket, TCP 5037 ──▶ adb server ── USB or Wi-Fi ──▶ adbd on the phone
    (server.py)                            (`adb start-server`)           shell, files, ports

edgebench uses no adb library and no port forwarding. Each request is a separate connection. Once
the server has accepted the request, the server passes bytes between this process and a service on
the phone. The program `adb` is run only to start the server. Source: Android Open Source Project,
packages/modules/adb, docs/dev/overview.md, services.md and protocol.md.
"""
