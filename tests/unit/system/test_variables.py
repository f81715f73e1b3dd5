"""Variables that a process with a model gets, and those that tell two environments apart."""

from __future__ import annotations

from edgebench.system.variables import listed_variables, measured_variables


def test_threads_of_tvm_are_passed_on_and_tell_environments_apart() -> None:
    """Otherwise a model compiled by TVM would run on another number of threads than requested."""
    variables = {"TVM_NUM_THREADS": "2", "TVM_API_KEY": "x"}
    assert listed_variables(variables) == {"TVM_NUM_THREADS": "2"}
    assert measured_variables(variables) == {"TVM_NUM_THREADS": "2"}
