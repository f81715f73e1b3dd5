"""Variables that a process with a model gets, and those that tell two environments apart."""

from __future__ import annotations

from edgebench.system.variables import listed_variables, measured_variables


def test_threads_of_tvm_are_passed_on_and_tell_environments_apart() -> None:
    """Otherwise a model compiled by TVM would run on another number of threads than requested."""
    variables = {"TVM_NUM_THREADS": "2", "TVM_API_KEY": "x"}
    assert listed_variables(variables) == {"TVM_NUM_THREADS": "2"}
    assert measured_variables(variables) == {"TVM_NUM_THREADS": "2"}


def test_names_are_whole_or_prefixes() -> None:
    """Otherwise a variable with a longer name would be passed on, or none of a vendor's."""
    variables = {"PATH": "/bin", "PATHS": "x", "OMP_": "1", "VENDOR_RT_A": "2", "VENDOR": "3"}
    assert listed_variables(variables) == {"PATH": "/bin", "OMP_": "1"}
    added = variables | {"EDGEBENCH_VARIABLES": "VENDOR_RT_*::PATHS"}
    assert listed_variables(added) == {
        "PATH": "/bin",
        "PATHS": "x",
        "OMP_": "1",
        "VENDOR_RT_A": "2",
    }
