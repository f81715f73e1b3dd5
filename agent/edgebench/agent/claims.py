"""Environment of an agent: the agent measures only for commands of the same environment.

An agent that was started by a command makes way for a command of another environment, as soon as
the agent is idle.
Both use the same state directory, so the device has a single lease at any moment. An agent that was
started with `serve` stays.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from edgebench.protocol.messages import AgentClaim, AgentClaimed, ClaimOutcome
from edgebench.system.python_environment import PythonEnvironment


class Claims:
    """Claims of commands on an agent: its environment, and the conversations that use it."""

    def __init__(self, environment: PythonEnvironment) -> None:
        self._environment = environment
        self._users: set[object] = set()
        self._is_leaving = False
        self.leave: Callable[[], None] | None = None
        """Ends the agent; None: it serves until it is stopped."""

    def enter(self, user: object) -> None:
        """Note a conversation that uses the agent."""
        self._users.add(user)

    def end(self, user: object) -> None:
        """Remove a conversation that has ended, or that only watches."""
        self._users.discard(user)

    def decide(self, claim: AgentClaim, user: object, used_by: str | None) -> AgentClaimed:
        """Decide on a claim, and note its conversation if it is served; `LEAVES` ends the agent.

        Args:
            claim: Environment of the command.
            user: Its conversation.
            used_by: Name of a host that holds a device here.
        """
        environment = self._environment
        has_same_libraries = claim.libraries == environment.libraries
        has_same_settings = claim.settings == environment.settings
        if self._is_leaving:
            outcome = ClaimOutcome.LEAVES
        elif has_same_libraries and (has_same_settings or self.leave is None):
            # The settings of a serving agent are its owner's choice.
            self.enter(user)
            outcome = ClaimOutcome.SAME
        elif self.leave is None:
            outcome = ClaimOutcome.SERVES
        elif used_by is not None or self._users - {user}:
            outcome = ClaimOutcome.BUSY
        else:
            self._is_leaving = True
            outcome = ClaimOutcome.LEAVES
        return AgentClaimed(outcome, environment.interpreter, os.getpid(), used_by or "")
