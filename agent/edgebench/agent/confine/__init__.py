"""What keeps a hostile model in its worker process.

A model is parsed and run by C++ that was not written for untrusted files, so its author may be able
to run code in the worker, with all rights of the worker. The worker therefore drops all rights that
no inference needs before it reads any byte of a model:

    rights          none by set-user-ID programs, no capabilities
    system calls    `seccomp`: no sockets, no programs, no processes, no access to others
    files           reads the model, libraries, /proc and /sys; writes its directory:
                    `view`: only these exist, in its own mount namespace
                    `user`: a worker of root becomes another user
                    `landlock`: no other file can be opened
    network         its own namespace, without any interface
    threads         as many as a runtime may need

Each measure is applied independently, because kernels differ in what they support, and the run's
record lists the applied measures. Root is not required. All this must happen while the process has
a single thread: later threads inherit the restrictions, earlier threads would not.
"""

from edgebench.agent.confine.apply import ConfinementResult, Permissions, confine
from edgebench.agent.confine.kernel import Kernel
from edgebench.agent.confine.landlock import AllowedPaths

__all__ = ["AllowedPaths", "ConfinementResult", "Kernel", "Permissions", "confine"]
