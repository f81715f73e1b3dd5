"""Receiver of the bare TLS copy in push.py, without a protocol above TLS 1.3.

    python benchmarks/sink.py IDENTITY.pem FOLDER

The script prints the port on which it listens. A copy begins with eight bytes, big-endian: the
number of bytes that follow, and the flag TO_FILE. With the flag, the bytes are written to a file in
FOLDER; without it, they are discarded. The receiver confirms a complete copy with a single byte.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from pathlib import Path
from typing import BinaryIO

READ_BYTES = 256 * 1024
TO_FILE = 1 << 63
"""Flag in the announced size; if it is set, the bytes are written to a file."""


async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, folder: Path) -> None:
    """Receive copies until the sender closes the connection."""
    while announced := await reader.read(8):
        announced += await reader.readexactly(8 - len(announced))
        size = int.from_bytes(announced, "big")
        if size & TO_FILE:
            path = folder / "bare"
            path.unlink(missing_ok=True)
            with path.open("wb", buffering=0) as file:
                await _copy(reader, size & ~TO_FILE, file)
        else:
            await _copy(reader, size, None)
        writer.write(b"!")
        await writer.drain()
    writer.close()


async def _copy(reader: asyncio.StreamReader, left: int, file: BinaryIO | None) -> None:
    while left:
        data = await reader.read(min(left, READ_BYTES))
        if not data:
            raise ConnectionResetError("the sender is gone")
        left -= len(data)
        if file:
            file.write(data)


async def main(identity: str, folder: Path) -> None:
    """Listen on loopback until killed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_cert_chain(identity)
    server = await asyncio.start_server(
        lambda reader, writer: receive(reader, writer, folder),
        "127.0.0.1",
        0,
        ssl=context,
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
