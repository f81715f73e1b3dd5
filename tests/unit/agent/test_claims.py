"""What an agent does about commands of its own environment and of others."""

from __future__ import annotations

import os

import pytest

from edgebench.agent.claims import Claims
from edgebench.protocol.messages import AgentClaim, ClaimOutcome
from edgebench.system.python_environment import PythonEnvironment

SAME = AgentClaim("libraries", "settings")
OTHER_SETTINGS = AgentClaim("libraries", "others")
OTHER_LIBRARIES = AgentClaim("others", "settings")


@pytest.fixture
def claims() -> Claims:
    """Claims of an agent that a command has started."""
    claims = Claims(PythonEnvironment("/venv/bin/python", "libraries", "settings"))
    claims.leave = lambda: None
    return claims


def test_command_of_the_same_environment_is_served(claims: Claims) -> None:
    """Otherwise each command would start an agent, or be refused while another measures."""
    for user in ("first", "second"):
        assert claims.decide(SAME, user, "ada@pi").outcome is ClaimOutcome.SAME


@pytest.mark.parametrize("claim", [OTHER_SETTINGS, OTHER_LIBRARIES])
def test_idle_agent_leaves_for_another_environment(claims: Claims, claim: AgentClaim) -> None:
    """Otherwise its runtimes, or their settings, would be measured instead of the command's own."""
    reply = claims.decide(claim, "user", None)
    assert reply.outcome is ClaimOutcome.LEAVES
    assert (reply.interpreter, reply.pid) == ("/venv/bin/python", os.getpid())


def test_agent_that_leaves_takes_nobody_in(claims: Claims) -> None:
    """Otherwise a command that comes in between would be cut off."""
    claims.decide(OTHER_LIBRARIES, "user", None)
    assert claims.decide(SAME, "late", None).outcome is ClaimOutcome.LEAVES


def test_agent_with_a_conversation_or_a_lease_stays(claims: Claims) -> None:
    """Otherwise a command of another environment would end a measurement."""
    claims.enter("measuring")
    assert claims.decide(OTHER_LIBRARIES, "user", None).outcome is ClaimOutcome.BUSY
    claims.end("measuring")
    reply = claims.decide(OTHER_LIBRARIES, "user", "ada@pi")
    assert (reply.outcome, reply.used_by) == (ClaimOutcome.BUSY, "ada@pi")
    assert claims.decide(OTHER_LIBRARIES, "user", None).outcome is ClaimOutcome.LEAVES


@pytest.mark.parametrize(
    ("claim", "outcome"),
    [
        (SAME, ClaimOutcome.SAME),
        (OTHER_SETTINGS, ClaimOutcome.SAME),
        (OTHER_LIBRARIES, ClaimOutcome.SERVES),
    ],
)
def test_agent_that_serves_stays(claims: Claims, claim: AgentClaim, outcome: ClaimOutcome) -> None:
    """Otherwise a command would end an agent that others need, or silently measure its runtimes."""
    claims.leave = None
    assert claims.decide(claim, "user", None).outcome is outcome
