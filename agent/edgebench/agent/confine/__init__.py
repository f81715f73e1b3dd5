"""Confines a worker process, so that a hostile model cannot act outside this process.

A model is parsed and run by C++ code that was not written for untrusted files. The author of a
model may therefore be able to run code in the worker, with all rights of the worker. So before the
worker reads any byte of a model, it drops all rights that an inference does not need:

    rights          none by set-user-ID programs, no capabilities
    system calls    `seccomp`: no sockets, no programs, no processes, no access to other processes
    files           reads the model, libraries, /proc and /sys; writes its directory:
                    `view`: only these exist, in its own mount namespace
                    `user`: a worker of root becomes another user
                    `landlock`: no other file can be opened
    network         its own namespace, without any interface
    threads         as many as a runtime may need

Each measure is applied independently, because kernels differ in what they support. The run's record
lists the applied measures. Root is not required. The confinement must be applied while the process
has a single thread. Threads that start later inherit the restrictions. Threads that started earlier
would remain unrestricted.
"""

from edgebench.agent.confine.apply import ConfinementResult, Permissions, confine
from edgebench.agent.confine.kernel import Kernel
from edgebench.agent.confine.landlock import AllowedPaths

__all__ = ["AllowedPaths", "ConfinementResult", "Kernel", "Permissions", "confine"]
