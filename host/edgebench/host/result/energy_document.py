"""`metrics.energy` of run.json."""

from __future__ import annotations

from typing import Any

from edgebench.host.analysis.energy.result import Numbers, RunEnergy
from edgebench.host.analysis.energy.sync.choose import Sync
from edgebench.host.analysis.energy.uncertainty import COVERAGE, Uncertain
from edgebench.protocol.codec import to_plain

_AS_THEY_ARE = (
    "duration_s",
    "inference_count",
    "power_w_peak",
    "power_w_peak_u95_absolute",
    "power_w_idle",
    "power_w_idle_u95_absolute",
    "power_w_idle_before",
    "power_w_idle_after",
    "energy_delay_js",
    "energy_delay_u95_absolute_js",
    "phases",
    "per_query",
    "battery",
    "net_refused",
)


def energy_document(energy: RunEnergy | None) -> dict[str, Any] | None:
    """As stored; without numbers where they were refused, and None where none was asked for."""
    if energy is None:
        return None
    return {
        **(_numbers(energy.numbers) if energy.numbers else _no_numbers()),
        "boundary": energy.site.boundary if energy.site else None,
        "channels": list(energy.site.channels) if energy.site else None,
        "meter": energy.meter,
        "supply_v": energy.supply_v,
        "settings_sha256": energy.settings_sha256,
        "sync": _sync(energy.sync) if energy.sync else None,
        "checks": to_plain(energy.checks),
        "refused": energy.refused,
    }


def _numbers(found: Numbers) -> dict[str, Any]:
    return {
        "gross_j_per_inference": found.gross.value,
        **_uncertainty(found.gross, ""),
        "net_j_per_inference": found.net.value if found.net else None,
        **_uncertainty(found.net, "net_"),
        "coverage_factor": COVERAGE,
        "power_w_mean": found.power_w.value,
        "power_w_mean_u95_absolute": found.power_w.u95_absolute,
        "inferences_per_j": _inverse(found.gross.value),
        "inferences_per_s_per_w": _per_watt(found),
        **{name: to_plain(getattr(found, name)) for name in _AS_THEY_ARE},
    }


def _uncertainty(found: Uncertain | None, prefix: str) -> dict[str, Any]:
    """Expanded ones, and the standard ones that they are made of."""
    return {
        f"{prefix}u95_absolute_j": found.u95_absolute if found else None,
        f"{prefix}u95_comparative_j": found.u95_comparative if found else None,
        f"{prefix}components_j": found.components if found else None,
        f"{prefix}common_j": found.common if found else None,
    }


def _inverse(value: float) -> float | None:
    return 1 / value if value > 0 else None


def _per_watt(found: Numbers) -> float | None:
    rate_per_s = found.inference_count / found.duration_s
    return rate_per_s / found.power_w.value if found.power_w.value > 0 else None


def _no_numbers() -> dict[str, None]:
    return dict.fromkeys(
        (
            *("gross_j_per_inference", "u95_absolute_j", "u95_comparative_j", "components_j"),
            *("common_j", "net_common_j"),
            *("net_j_per_inference", "net_u95_absolute_j", "net_u95_comparative_j"),
            *("net_components_j", "coverage_factor", "power_w_mean", "power_w_mean_u95_absolute"),
            *("inferences_per_j", "inferences_per_s_per_w", *_AS_THEY_ARE),
        )
    )


def _sync(sync: Sync) -> dict[str, Any]:
    best = sync.best
    return {
        "method": best.method.value if best else None,
        "asked": sync.wanted.value if sync.wanted else None,
        "error_ns": best.error_ns if best else None,
        "residual_ns": best.residual_ns if best else None,
        "mark_count": best.mark_count if best else None,
        "slope_ppm": best.line.slope * 1e6 if best else None,
        "reference_ns": best.line.reference_ns if best else None,
        "offset_ns": best.line.offset_ns if best else None,
        "tried": to_plain(sync.tried),
    }
