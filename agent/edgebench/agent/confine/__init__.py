"""What keeps a hostile model in its worker process.

A model is parsed and run by C++ that was not written for files from strangers, so whoever wrote
the file may come to run code in the worker. That code then has what the worker has. Before the
worker knows any byte of a model it therefore gives up what no inference needs:

    rights          none by set-user-ID programs, no capabilities
    system calls    `seccomp`: no sockets, no programs, no processes, no access to others
    files           reads the model, libraries, /proc and /sys; writes its directory:
                    `view`: nothing else is there, in a mount namespace of its own
                    `user`: a worker of root is another user
                    `landlock`: nothing else may be opened
    network         a namespace of its own, without any interface
    threads         as many as a runtime may need

Each is tried on its own, because kernels differ in what they support, and what was applied is part
of the run's record. Nothing here needs root. It must happen while the process has one thread:
later ones inherit it, earlier ones would not.
"""

from edgebench.agent.confine.apply import ConfinementResult, Permissions, confine
from edgebench.agent.confine.kernel import Kernel
from edgebench.agent.confine.landlock import AllowedPaths

__all__ = ["AllowedPaths", "ConfinementResult", "Kernel", "Permissions", "confine"]
