"""Two-node thermal model: the junction follows the load within seconds, the case within minutes.

        power ──▶ junction ──(R_j)──▶ case ──(R_c)──▶ ambient
                    C_j                 C_c

    C_j dT_j/dt = P - (T_j - T_c) / R_j
    C_c dT_c/dt = (T_j - T_c) / R_j - (T_c - T_a) / R_c

A single node is not enough: a Raspberry Pi 5 at 85.1 °C cools by 15 °C in the first 30 s and by
another 10 °C in the next ten minutes (public observation).
"""

from __future__ import annotations

from dataclasses import dataclass

MAX_STEP_S = 0.05
"""Longest step of the explicit integration, far below the shorter of the two time constants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """Thermal resistances, K/W, and heat capacities, J/K."""

    junction_k_per_w: float
    junction_j_per_k: float
    case_k_per_w: float
    case_j_per_k: float


@dataclass(slots=True)
class BoardHeat:
    """Present temperatures of a body."""

    body: Body
    ambient_c: float
    junction_c: float
    case_c: float

    def advance(self, seconds: float, power_w: float, *, case_k_per_w: float | None = None) -> None:
        """Advance by an interval at constant power.

        Args:
            seconds: Simulated time.
            power_w: Power of the board.
            case_k_per_w: Thermal resistance between case and ambient, which a fan lowers; None: the
                resistance in `body`.
        """
        body = self.body
        to_ambient = body.case_k_per_w if case_k_per_w is None else case_k_per_w
        while seconds > 0:
            step_s = min(seconds, MAX_STEP_S)
            inner_w = (self.junction_c - self.case_c) / body.junction_k_per_w
            outer_w = (self.case_c - self.ambient_c) / to_ambient
            self.junction_c += step_s * (power_w - inner_w) / body.junction_j_per_k
            self.case_c += step_s * (inner_w - outer_w) / body.case_j_per_k
            seconds -= step_s


def at_rest(body: Body, ambient_c: float, power_w: float) -> BoardHeat:
    """Steady-state temperatures at this power."""
    case_c = ambient_c + power_w * body.case_k_per_w
    return BoardHeat(body, ambient_c, case_c + power_w * body.junction_k_per_w, case_c)
