"""Run a module as `python -m` does, but without the working directory on the search path.

    python run_module.py MODULE ARGUMENT...

The interpreter puts the folder of a script first on its search path, where `-m` and `-c` put the
working directory. The folder of this script contains no other file, and the script removes the
folder from the search path before importing anything but `sys`. From Python 3.11 on, `python -P -m`
does the same. `-I` would also ignore PYTHONPATH and the packages of `pip install --user`.
"""

import sys

if not getattr(sys.flags, "safe_path", False):  # else the interpreter has not added the folder
    del sys.path[0]

import runpy

del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
