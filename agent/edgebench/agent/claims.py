"""Decides which commands an agent serves; a command requests service with a message, the claim.

An agent that was started by a command serves only commands with the same Python environment. If a
command with a different environment claims the agent, the agent ends as soon as it is idle, and the
command then starts its own agent. Both agents use the same state directory, so the device has a
single lease at any moment. An agent that a user has started serves until it is stopped.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from edgebench.protocol.messages import AgentClaim, AgentClaimed, ClaimOutcome
from edgebench.system.python_environment import PythonEnvironment


class Claims:
    """Decides which commands an agent serves, and counts the conversations that use the agent."""

    def __init__(self, environment: PythonEnvironment) -> None:
        self._environment = environment
        self._users: set[object] = set()
        self._is_leaving = False
        self.leave: Callable[[], None] | None = None
        """Function that ends the agent; None: the agent serves until it is stopped."""

    def enter(self, user: object) -> None:
        """Add a conversation that uses the agent."""
        self._users.add(user)

    def end(self, user: object) -> None:
        """Remove a conversation that has ended, or that only watches."""
        self._users.discard(user)

    def decide(self, claim: AgentClaim, user: object, used_by: str | None) -> AgentClaimed:
        """Decide on a command's claim; if the outcome is `LEAVES`, the caller has to end the agent.

        Args:
            claim: Environment of the command.
            user: Conversation of the command. If the outcome is `SAME`, it is added to the
                conversations that use the agent.
            used_by: Name of a host that holds a device of the agent; None if there is none.
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
