"""Frames: what goes in comes out, and nothing but RemoteProtocolError comes out of bad bytes."""

from __future__ import annotations

import random
import struct
import tracemalloc
from typing import Any, get_args

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.strategies import values_of

from edgebench.protocol import messages as m
from edgebench.protocol.codec import (
    MAX_FRAME_BYTES,
    MAX_HEADER_BYTES,
    MAX_NUMBER,
    MAX_PAYLOAD_BYTES,
    Frame,
    decode,
    encode,
    kind_of,
)
from edgebench.protocol.device import DeviceDescription
from edgebench.protocol.errors import LocalProtocolError, RemoteProtocolError
from edgebench.protocol.pem import Pem
from edgebench.protocol.plain import from_plain, to_plain
from edgebench.protocol.record import Phase, RunRecord
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.text import printable

MESSAGES: tuple[type[Any], ...] = get_args(m.Message)
ANY_MESSAGE = st.one_of(*map(values_of, MESSAGES))
MUTATION_COUNT = 25_000
HOSTILE_PEAK_BYTES = 20 * 2**20
SPEC = RunSpec(runtime="tflite")


def frame_of(header: bytes, payload: bytes = b"") -> bytes:
    """A frame around unchecked header bytes."""
    return struct.pack("<I", len(header)) + header + payload


def frame_with(kind: object, body: object, number: object = 1) -> bytes:
    """A frame around unchecked values."""
    return frame_of(msgpack.packb([kind, number, body]))


def decoded_or_refused(data: bytes) -> Frame | None:
    """The frame, or None when it was refused as the codec promises; anything else is a bug."""
    try:
        return decode(data)
    except RemoteProtocolError as exc:
        error = str(exc)
    assert "\n" not in error, "the text of an error is one line"
    return None


def harmless(plain: Any, key: str = "") -> Any:
    """Plain values as they arrive: without terminal control characters, certificates whole."""
    if isinstance(plain, str):
        return plain if key == "certificate_pem" else printable(plain)
    if isinstance(plain, dict):
        return {printable(at): harmless(value, at) for at, value in plain.items()}
    return [harmless(value) for value in plain] if isinstance(plain, (list, tuple)) else plain


@pytest.mark.parametrize("kind", MESSAGES, ids=kind_of)
def test_every_message_survives_the_wire(kind: type[Any]) -> None:
    """Otherwise a message would lose or change a field on its way."""

    @settings(max_examples=20)
    @given(message=values_of(kind), number=st.integers(0, MAX_NUMBER), payload=st.binary())
    def check(message: Any, number: int, payload: bytes) -> None:
        frame = decode(encode(number, message, payload))
        assert (frame.number, bytes(frame.payload)) == (number, payload)
        assert to_plain(frame.message) == harmless(to_plain(message))

    check()


def test_texts_of_a_peer_are_made_printable_where_they_arrive() -> None:
    """Otherwise a host's name could clear the screen on which an agent's status is shown."""
    hello = m.Hello(4, "edgebench", "evil\x1b[2J\nlease free", "1")
    assert decode(encode(1, hello)).message == m.Hello(4, "edgebench", "evil?[2J?lease free", "1")
    paired = m.PairHost(Pem("-----BEGIN\nAAAA\n"), "ada")
    assert decode(encode(1, paired)).message == paired


def test_kinds_are_unique_and_in_snake_case() -> None:
    """Otherwise two messages would share a wire name, or a message be renamed by accident."""
    names = [kind_of(kind) for kind in MESSAGES]
    assert len(set(names)) == len(names) == 43
    assert [kind_of(kind) for kind in (m.Hello, m.ModelOffer, m.RunAcknowledge)] == [
        "hello",
        "model_offer",
        "run_acknowledge",
    ]


@settings(max_examples=25)
@given(record=values_of(RunRecord))
def test_run_record_survives_as_plain_values(record: RunRecord) -> None:
    """Otherwise the agent would spool something other than the host reads."""
    assert from_plain(to_plain(record), RunRecord) == record


def test_largest_payload_passes_and_one_byte_more_does_not() -> None:
    """Otherwise a bound would be off by one, or hold on one side only."""
    largest = bytes(MAX_PAYLOAD_BYTES)
    data = encode(1, m.FileData(0), largest)
    assert decode(data).payload == largest
    with pytest.raises(LocalProtocolError, match="payload"):
        encode(1, m.FileData(0), largest + b"x")
    with pytest.raises(RemoteProtocolError, match="payload"):
        decode(data + b"x")


def test_payload_is_a_view_of_the_received_bytes() -> None:
    """Otherwise a megabyte would be copied once more for every chunk of a model."""
    data = encode(1, m.FileData(0), b"payload")
    assert decode(data).payload.obj is data


def test_longest_list_of_runs_fits_into_a_frame() -> None:
    """Otherwise an agent with many unfetched runs could not report any of them."""
    longest = m.RunListing(tuple(f"{i:064d}" for i in range(m.MAX_LISTED_RUNS)), "x" * 64)
    assert decode(encode(1, longest)).message == longest


def test_too_large_message_is_our_own_error() -> None:
    """Otherwise we would send what the other side must refuse."""
    with pytest.raises(LocalProtocolError, match=str(MAX_HEADER_BYTES)):
        encode(1, m.Problem(1, "x" * MAX_HEADER_BYTES))


@pytest.mark.parametrize("size", [0, 1, 3, MAX_FRAME_BYTES + 1])
def test_frame_of_impossible_size_is_refused(size: int) -> None:
    """Otherwise a frame without a header, or over the bound, would be parsed."""
    with pytest.raises(RemoteProtocolError, match=f"frame of {size} bytes"):
        decode(bytes(size))


@pytest.mark.parametrize("claimed", [1, MAX_HEADER_BYTES, MAX_HEADER_BYTES + 1, 2**32 - 1])
def test_header_that_claims_more_than_is_there_is_refused(claimed: int) -> None:
    """Otherwise the size field would lead behind the end of the frame, or behind the bound."""
    with pytest.raises(RemoteProtocolError, match=f"header of {claimed} bytes"):
        decode(struct.pack("<I", claimed))


def test_every_truncation_is_refused() -> None:
    """Otherwise a frame that was cut off would be taken for a whole frame."""
    data = encode(7, m.RunStart("run", SPEC, "0" * 64, "model.tflite"))
    for size in range(len(data)):
        with pytest.raises(RemoteProtocolError):
            decode(data[:size])


def test_bytes_behind_the_header_value_are_refused() -> None:
    """Otherwise half of a header with two values would silently be ignored."""
    header = msgpack.packb(["done", 1, {}])
    with pytest.raises(RemoteProtocolError):
        decode(frame_of(header + header))


@pytest.mark.parametrize("levels", [17, 500, 10_000, 60_000])
@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1k"], ids=["arrays", "maps"])
def test_deep_nesting_is_refused(opening: bytes, levels: int) -> None:
    """Otherwise a few thousand bytes would overflow the stack of code that walks over them."""
    nested = (opening * levels)[: MAX_HEADER_BYTES - 64] + b"\xc0"
    prefix = b"\x93\xa4done\x01\x81\xa1x"
    with pytest.raises(RemoteProtocolError):
        decode(frame_of(prefix + nested))


def test_unknown_fields_are_ignored() -> None:
    """Otherwise a newer peer could not add a field without breaking this one."""
    assert decode(frame_with("acquire", {"ttl_s": 1.0, "later": [1]})).message == m.Acquire(1.0)


def test_fields_with_defaults_may_be_absent() -> None:
    """Otherwise an older peer that does not know a field yet would be cut off."""
    frame = decode(frame_with("progress", {"run_id": "r", "phase": "loading"}))
    assert frame.message == m.Progress("r", Phase.LOADING)


@pytest.mark.parametrize("kind", ["", "Done", "no_such", "object", "__class__", 5, None, b"done"])
def test_unknown_kinds_are_refused(kind: object) -> None:
    """Otherwise a name from the wire would reach something that is not a message."""
    with pytest.raises(RemoteProtocolError, match="unknown message kind"):
        decode(frame_with(kind, {}))


@pytest.mark.parametrize("number", [-1, MAX_NUMBER + 1, 1.0, "1", None, True])
def test_request_numbers_out_of_range_are_refused(number: object) -> None:
    """Otherwise a response would go out under a number that its host cannot hold."""
    with pytest.raises(RemoteProtocolError, match="request number"):
        decode(frame_with("done", {}, number))


@pytest.mark.parametrize(
    "header",
    [[], ["done", 1], ["done", 1, {}, 4], {"kind": "done"}, "done", None, ["done", 1, []]],
)
def test_headers_of_another_shape_are_refused(header: object) -> None:
    """Otherwise something that is not [kind, number, map] would be understood as a message."""
    with pytest.raises(RemoteProtocolError):
        decode(frame_of(msgpack.packb(header)))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("acquire", {}),
        ("acquire", {"ttl_s": "30"}),
        ("acquire", {"ttl_s": True}),
        ("acquire", {"ttl_s": None}),
        ("run_open", {"run_id": 5}),
        ("run_open", {"run_id": b"run"}),
        ("probe_reply", {"received_ns": 1.5, "sent_ns": 2}),
        ("probe_reply", {"received_ns": "1", "sent_ns": 2}),
        ("probe_reply", {"received_ns": True, "sent_ns": 2}),
        ("probe_reply", {"received_ns": msgpack.Timestamp(1, 0), "sent_ns": 2}),
        ("probe_reply", {"received_ns": msgpack.ExtType(5, b"1"), "sent_ns": 2}),
        ("model_state", {"sha256": "", "offset_bytes": 0, "is_complete": 1}),
        ("run_listing", {"finished": "abc"}),
        ("run_listing", {"finished": {"a": 1}}),
        ("run_listing", {"finished": b"abc"}),
        ("run_listing", {"finished": [1]}),
        ("run_listing", {"finished": [], "running": 5}),
        ("run_files", {"run_id": "r", "files": ["queries.bin"]}),
        ("progress", {"run_id": "r", "phase": "resting"}),
        ("progress", {"run_id": "r", "phase": ["loading"]}),
        ("described", {"system": {"device": 1}}),
        ("run_start", {"run_id": "r", "spec": [], "model_sha256": "", "model_name": ""}),
    ],
)
def test_wrong_types_are_refused(kind: str, body: dict[str, object]) -> None:
    """Otherwise a peer's bug would be converted into a value that it did not mean."""
    with pytest.raises(RemoteProtocolError, match="not a valid"):
        decode(frame_with(kind, body))


@pytest.mark.parametrize(
    "change",
    [
        {"duration_s": float("nan")},
        {"duration_s": -1.0},
        {"threads": 100_000},
        {"min_query_count": 0},
        {"seed": -1},
        {"scenario": "unknown"},
        {"limits": {"load_timeout_s": float("inf")}},
        {"limits": None},
    ],
)
def test_run_specifications_out_of_bounds_are_refused(change: dict[str, object]) -> None:
    """Otherwise a value that the host's own constructor refuses would come in over the wire."""
    start = {"run_id": "r", "model_sha256": "", "model_name": "m"}
    spec = to_plain(SPEC)
    said = decode(frame_with("run_start", start | {"spec": spec})).message
    assert isinstance(said, m.RunStart)
    assert said.spec == SPEC
    with pytest.raises(RemoteProtocolError, match="not a valid RunStart"):
        decode(frame_with("run_start", start | {"spec": spec | change}))


@settings(max_examples=500)
@given(data=st.binary(max_size=300))
def test_arbitrary_bytes_are_refused_in_one_way(data: bytes) -> None:
    """Otherwise bytes from a stranger would raise an uncaught exception."""
    decoded_or_refused(data)
    decoded_or_refused(frame_of(data))


@settings(max_examples=150)
@given(
    message=ANY_MESSAGE,
    position=st.integers(0, 2**16),
    junk=st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    ),
)
def test_one_wrong_field_is_refused_in_one_way(message: Any, position: int, junk: Any) -> None:
    """Otherwise well-formed MessagePack with a wrong value would raise an uncaught exception."""
    body = to_plain(message)
    if body:
        body[sorted(body)[position % len(body)]] = junk
    decoded_or_refused(frame_with(kind_of(type(message)), body))


def test_mutated_frames_are_refused_in_one_way() -> None:
    """Otherwise some bytes between valid and random would raise an uncaught exception."""
    chance = random.Random(20240607)
    seeds = [encode(i, message, b"payload") for i, message in enumerate(_one_of_each())]
    outcomes = {True: 0, False: 0}
    for _ in range(MUTATION_COUNT):
        frame = decoded_or_refused(_mutated(chance, bytearray(chance.choice(seeds))))
        outcomes[frame is not None] += 1
    assert min(outcomes.values()) > MUTATION_COUNT / 50, f"the mutations are too weak: {outcomes}"


@pytest.mark.parametrize(
    "filling",
    [b"\xc0", b"\x90", b"\x80", b"\xa0", b"\xcb" + bytes(8), b"\x91\x91\x91\x90", b"\xd4\x05\x00"],
    ids=["nil", "empty arrays", "empty maps", "empty texts", "floats", "small trees", "extensions"],
)
def test_hostile_headers_cost_little_memory(filling: bytes) -> None:
    """Otherwise 64 KiB of header would be unpacked into gigabytes of Python objects."""
    count = (MAX_HEADER_BYTES - 64) // len(filling)
    array = b"\xdc" + struct.pack(">H", count) + filling * count
    header = b"\x93\xa4done\x01\x81\xa5extra" + array
    assert _peak_bytes(frame_of(header)) < HOSTILE_PEAK_BYTES


@pytest.mark.parametrize(
    "header",
    [
        b"\xdd\xff\xff\xff\xff",
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
    ],
    ids=["array", "map", "text", "bytes"],
)
def test_claimed_lengths_allocate_nothing(header: bytes) -> None:
    """Otherwise five bytes would make room for the four thousand million elements they claim."""
    assert _peak_bytes(frame_of(b"\x93\xa4done\x01\x81\xa5extra" + header)) < 2**20


def _peak_bytes(data: bytes) -> int:
    decoded_or_refused(data)  # caches that stay are not what is measured here
    tracemalloc.start()
    try:
        decoded_or_refused(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _one_of_each() -> list[Any]:
    """A message of each kind, always the same."""
    found: dict[type[Any], Any] = {}

    @settings(max_examples=3)
    @given(st.tuples(*map(values_of, MESSAGES)))
    def collect(messages: tuple[Any, ...]) -> None:
        found.update({type(message): message for message in messages})

    collect()
    return list(found.values())


def _mutated(chance: random.Random, data: bytearray) -> bytes:
    for _ in range(chance.choice((1, 1, 1, 2, 8))):
        at = chance.randrange(len(data))
        match chance.randrange(6):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                data[at] ^= 1 << chance.randrange(8)
            case 2:
                del data[at : at + chance.randrange(1, 9)]
            case 3:
                data[at:at] = chance.randbytes(chance.randrange(1, 9))
            case 4:
                data[at:at] = data[: chance.randrange(1, 40)]
            case _:
                data += chance.randbytes(3)
        if not data:
            return b""
    return bytes(data)


def test_largest_number_of_seats_fits_into_a_frame() -> None:
    """Otherwise an agent that serves many devices could not be listed."""
    text = "x" * 255
    device = DeviceDescription(text, text, text, text, text, text)
    state = m.SeatState("seat", device, "host" * 16, 1.0, "r" * 64, 50.0, text)
    assert len(encode(1, m.Seats(m.MAX_SEATS * (state,)))) < MAX_HEADER_BYTES
