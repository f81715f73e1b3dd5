"""Confines a worker process, so that a hostile model cannot act outside this process.

A model is parsed and run by C++ code that was not written for untrusted files, so the author of a
model may be able to run code in the worker, with all rights of the worker. The worker therefore
drops all rights that no inference needs before it reads any byte of a model:

    rights          none by set-user-ID programs, no capabilities
    system calls    `seccomp`: no sockets, no programs, no processes, no access to other processes
    files           reads the model, libraries, /proc and /sys; writes its directory:
                    `view`: only these exist, in its own mount namespace
                    `user`: a worker of root becomes another user
                    `landlock`: no other file can be opened
    network         its own namespace, without any interface
    threads         as many as a runtime may need

Each measure is applied independently, because kernels differ in what they support, and the run's
record lists the applied measures. Root is not required. The confinement must be applied while the
process has a single thread: threads that start later inherit the restrictions, threads that started
earlier would not.
"""

from edgebench.agent.confine.apply import ConfinementResult, Permissions, confine
from edgebench.agent.confine.kernel import Kernel
from edgebench.agent.confine.landlock import AllowedPaths

__all__ = ["AllowedPaths", "ConfinementResult", "Kernel", "Permissions", "confine"]
