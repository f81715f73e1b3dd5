"""Microcontrollers of an agent: detected, loaded, timed and read out over a serial line.

    transports/   bytes: a serial port, a socket, a child process, QEMU
    dialects/     bytes ↔ commands and replies of a board; no I/O
    board.py      a board: transport × dialect, with retries, read-back and windows
    frames.py     binary frames of edgebench's firmware; no I/O
    detection.py  ports that may have a board       flashing.py  commands of flashing tools
    generate.py   model blobs for edgebench's firmware, from .tflite (with tflite, arena, blob, …)

Only `transports/`, `detection.py` and `flashing.py` access the system. The requirements for a board
are in docs/bring-your-own-board.md, the extensions of edgebench's firmware in
docs/firmware-protocol.md.
"""
