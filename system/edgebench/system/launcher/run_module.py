"""Runs a module as `python -m` does, but without the working directory on its search path.

`python run_module.py MODULE ARGUMENT...`: the interpreter puts the folder of a script in front of
its search path, where `-m` and `-c` put the working directory. This folder contains no other file,
and it is removed from the path before any import. `python -P -m` does the same from Python 3.11 on;
`-I` would also drop PYTHONPATH and the packages of `pip install --user`.
"""

import sys

if not getattr(sys.flags, "safe_path", False):  # else the interpreter has not added the folder
    del sys.path[0]

import runpy

del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
