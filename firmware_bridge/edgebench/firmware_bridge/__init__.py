"""Detects an agent's microcontroller boards on serial lines, and runs and times models on them.

    transports/   bytes: a serial port, a socket, a child process, QEMU
    dialects/     bytes ↔ commands and replies of a board; no I/O
    board.py      a board, reached by a transport in a dialect: retries, read-back, windows
    frames.py     binary frames of edgebench's firmware; no I/O
    detection.py  ports that may have a board       flashing.py  commands of flashing tools
    generate.py   model blobs for edgebench's firmware, from .tflite (uses tflite, arena, blob, …)

Only `transports/`, `detection.py` and `flashing.py` access devices and the operating system.
docs/bring-your-own-board.md has the requirements for a board. docs/firmware-protocol.md describes
the extensions of MLPerf Tiny's protocol in edgebench's firmware.
"""
