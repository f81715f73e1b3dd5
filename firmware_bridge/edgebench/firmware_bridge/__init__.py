"""Microcontrollers beside an agent: found, loaded, timed and read out over a serial line.

    transports/   bytes: a serial port, a socket, a child process, QEMU
    dialects/     bytes ↔ what a board says and is told; no I/O
    board.py      one board: transport × dialect, with retries, read-back and windows
    frames.py     binary frames of our own firmware; no I/O
    detection.py  which ports may have a board      flashing.py  commands of flashing tools
    generate.py   model blobs for our own firmware, from .tflite (with tflite, arena, blob, …)

Only `transports/`, `detection.py` and `flashing.py` talk to the system. What a board has to do is
in docs/bring-your-own-board.md, what our own firmware adds in docs/firmware-protocol.md.
"""
