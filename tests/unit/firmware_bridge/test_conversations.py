"""Conversations with MLPerf Tiny's programs: what the dialects read, and what the doubles print."""

from __future__ import annotations

import re

import pytest
from support.board_double import (
    PULSE,
    BoardDouble,
    BoardHabits,
    InterfaceDouble,
    StreamingDouble,
)
from support.conversations import CONVERSATIONS, Conversation, meanings

REFERENCE = BoardHabits(input_bytes=10, buffer_bytes=27_648)


def double_of(conversation: Conversation) -> BoardDouble | InterfaceDouble:
    """The program that the conversation is with."""
    if conversation.dialect_name == "streaming":
        return StreamingDouble(REFERENCE)
    if conversation.name == "api-energy":
        return BoardDouble(BoardHabits(input_bytes=10, is_energy=True))
    if conversation.dialect_name == "mlperf_tiny":
        return BoardDouble(REFERENCE)
    is_today = conversation.name != "interface-2025-06"
    is_own = conversation.dialect_name == "interface_board"
    board = StreamingDouble(is_listening=True) if is_own else BoardDouble()
    sounds = {"short.wav": 10}
    return InterfaceDouble(board, sounds=sounds, is_today=is_today, has_timer=is_today)


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda one: one.name)
def test_dialect_reads_every_line(conversation: Conversation) -> None:
    """Otherwise a text that upstream prints would pass for the maker's own, or another event."""
    assert re.search(r"mlcommons/tiny @ [0-9a-f]{8,40}\b", conversation.source)
    dialect = conversation.dialect()
    for exchange in conversation.exchanges:
        found = meanings(dialect, exchange.command, exchange.reply)
        assert found == exchange.events, exchange.command
        assert found[-1] == "ReplyEnd()"


@pytest.mark.parametrize("conversation", CONVERSATIONS, ids=lambda one: one.name)
def test_double_prints_what_upstream_prints(conversation: Conversation) -> None:
    """Otherwise the bridge would be tested against what somebody remembers of upstream."""
    double, dialect = double_of(conversation), conversation.dialect()
    started = double.start()
    if isinstance(double, BoardDouble):
        double.time_us = double.habits.lap_begin_us
    for exchange in conversation.exchanges:
        parts = (
            started if exchange.command is None else double.hear(dialect.encode(exchange.command))
        )
        if isinstance(double, StreamingDouble) and double.is_listening and not double.heard_count:
            double.play(20)
        printed = b"".join(data for _, data in parts if data != PULSE)
        assert printed == exchange.reply, exchange.command
