"""Meters and their recordings, as tables or as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from edgebench.host.analysis.energy.windows import shortest_window_s
from edgebench.host.power.imports.importer import DRIVER
from edgebench.host.power.stored import StoredSession
from edgebench.host.result.energy import RecordingVerdict
from edgebench.host.result.reason import Reason
from edgebench.host.result.reasons.table import text_of
from edgebench.host.result.units import (
    format_amperes,
    format_joules_within,
    format_ns,
    format_rate,
    format_watts,
    format_watts_within,
)
from edgebench.host.result.verdict import State
from edgebench.host.show.data_table import DataTable
from edgebench.host.show.hints import REFUSED_IMPORT, REFUSED_RECORDING
from edgebench.host.show.tables import console, text
from edgebench.meters.base import AbsentMeter, Header
from edgebench.meters.rails import LEFT_OUT
from edgebench.meters.registry import DRIVERS
from edgebench.meters.uncertainty import Distribution, UncertaintyTerm, Unit
from edgebench.protocol.plain import to_plain
from edgebench.system.terminal import echo, echo_hint

_OUTCOMES = {True: ("pass", "green"), False: ("fail", "red"), None: ("unknown", "yellow")}


def print_list(headers: Mapping[str, Header | AbsentMeter], *, as_json: bool) -> None:
    """Print every driver, with the channels of its meter or the reason why it found none."""
    if as_json:
        _print_json({"meters": {name: to_plain(header) for name, header in headers.items()}})
        return
    table = DataTable("meter", "instrument", "here")
    for name, header in headers.items():
        if isinstance(header, AbsentMeter):
            here = Text(f"no: {header.reason}", style="yellow")
        else:
            here = Text(", ".join(c.name for c in header.capability.channels), style="green")
        table.add_row(name, DRIVERS[name].summary, here)
    console().print(table)
    echo("addresses and options: edgebench meters --help")
    echo("next: edgebench meters info METER")


def print_info(header: Header, *, as_json: bool) -> None:
    """Print the description, capability and uncertainty terms of a meter."""
    if as_json:
        _print_json(to_plain(header))
        return
    info, capability = header.info, header.capability
    facts = Table.grid(padding=(0, 2))
    rate = f"{format_rate(capability.rate_hz)} samples/s"
    kind = "means since the previous sample" if capability.is_averaging else "instantaneous values"
    for name, value in (
        ("meter", f"{info.vendor} {info.model}"),
        ("serial", info.serial or "unknown"),
        ("firmware", info.firmware or "unknown"),
        ("rate", f"{rate}, {kind}"),
        ("shortest window", format_ns(shortest_window_s(capability) * 1e9)),
        ("clock", capability.clock_domain),
        ("digital inputs", str(capability.digital_count)),
        ("losses detected by", capability.loss_detection),
    ):
        facts.add_row(Text(name, style="bold"), text(value))
    for channel in capability.channels:
        facts.add_row(Text("channel", style="bold"), text(f"{channel.name}: {channel.boundary}"))
    for reason in header.facts.get(LEFT_OUT, ()):
        facts.add_row(Text("left out", style="bold"), text(reason))
    for limit in capability.current_limits:
        where = "" if limit.range is None else f"range {limit.range}, "
        where += "" if limit.channel is None else f"{limit.channel}, "
        origin = ", ".join(filter(None, (limit.origin.value, limit.reference)))
        facts.add_row(
            Text("current", style="bold"),
            text(f"{where}to {format_amperes(limit.limit_a)} ({origin})"),
        )
    terms = DataTable("uncertainty", "value", "applies to", "origin", "reference")
    for term in header.uncertainty:
        terms.add_row(*_term(term))
    out = console()
    out.print(facts)
    out.print(terms)


def _term(term: UncertaintyTerm) -> list[str]:
    is_ratio = term.unit is Unit.RATIO
    value = f"{100 * term.value:.3g} %" if is_ratio else f"{term.value:.3g} {term.unit.value}"
    spread = term.distribution.value
    if term.distribution is Distribution.NORMAL:
        spread += f", k = {term.coverage:g}"
    where = "all ranges" if term.range is None else f"range {term.range}"
    return [term.kind.value, f"±{value} ({spread})", where, term.origin.value, term.reference]


def print_checks(session: StoredSession, *, as_json: bool) -> None:
    """Print the outcomes of the checks of a self-test."""
    if as_json:
        _print_json(_plain_checks(session))
        return
    console().print(_checks_table(session))
    if session.is_trusted is False:
        _print_reasons(session, "the meter fails its self-test")


def print_session(session: StoredSession, *, as_json: bool) -> None:
    """Print the checks and the energy of a recording; no energy if a check failed."""
    channels = [] if session.is_trusted is False else session.channels()
    if as_json:
        _print_json(
            _plain_checks(session) | {"channels": [to_plain(channel) for channel in channels]}
        )
        return
    out = console()
    out.print(_checks_table(session))
    if channels:
        table = DataTable("channel", "boundary")
        table.add_numbers("time", "energy (k = 2)", "mean (k = 2)", "peak")
        table.padding = (0, 1, 0, 0)  # no number is broken on a terminal of 80 columns
        for channel in channels:
            table.add_row(
                channel.name,
                channel.boundary,
                f"{channel.duration_s:.3f} s",
                format_joules_within(channel.energy_j, channel.u95_absolute_j),
                format_watts_within(channel.power_w_mean, channel.power_w_mean_u95_absolute),
                format_watts(channel.power_w_peak),
            )
        out.print(table)
        _print_verdict(session.verdict)
    elif session.is_trusted is False:
        if session.verdict.reading:
            _print_verdict(session.verdict)
        _print_reasons(session, "no energy, because the recording cannot be trusted")
    else:
        echo("error: no energy: no channel has a value")
        echo_hint(REFUSED_RECORDING)


def _print_verdict(verdict: RecordingVerdict) -> None:
    """Print the verdict, its reasons, the properties that a file lacks, and how it was read."""
    facts = Table.grid(padding=(0, 2))
    style = {State.VALID: "green", State.SUSPECT: "yellow", State.INVALID: "red"}[verdict.state]
    facts.add_row(Text("verdict", style="bold"), Text(verdict.state.value, style=style))
    for name, reasons in (
        ("because", verdict.reasons),
        ("not stated", verdict.not_stated),
        ("reading", verdict.reading),
    ):
        for number, reason in enumerate(reasons):
            facts.add_row(Text("" if number else name, style="bold"), text(text_of((reason,))))
    console().print(facts)


def _print_reasons(session: StoredSession, what: str) -> None:
    """Print the first failed check, with its value and limit; the table lists the others."""
    failed = next(check for check in session.checks if check.is_passed is False)
    for line in f"error: {what}: {failed.id}: {failed.detail}".splitlines():
        echo(line)
    is_import = session.facts.header.driver == DRIVER
    echo_hint(REFUSED_IMPORT if is_import else REFUSED_RECORDING)


def _checks_table(session: StoredSession) -> Table:
    table = DataTable("check", "outcome", "detail")
    for check in session.checks:
        outcome, style = _OUTCOMES[check.is_passed]
        table.add_row(check.id, Text(outcome, style=style), text(check.detail))
    return table


def _plain_checks(session: StoredSession) -> dict[str, object]:
    verdict = session.verdict

    def plain(reasons: Sequence[Reason]) -> list[dict[str, object]]:
        return [
            {"id": reason.id, "facts": to_plain(reason.facts), "detail": text_of((reason,))}
            for reason in reasons
        ]

    return {
        "directory": str(session.directory),
        "meter": to_plain(session.facts.header.info),
        "is_trusted": session.is_trusted,
        "verdict": {
            "state": verdict.state.value,
            "reasons": plain(verdict.reasons),
            "not_stated": plain(verdict.not_stated),
            "reading": plain(verdict.reading),
        },
        "interrupted_s": session.interrupted_s,
        "loss": to_plain(session.facts.loss),
        "checks": [
            {"id": check.id, "outcome": _OUTCOMES[check.is_passed][0], "detail": check.detail}
            for check in session.checks
        ],
    }


def _print_json(plain: Mapping[str, object]) -> None:
    json.dump(plain, sys.stdout, indent=1)
    print()
