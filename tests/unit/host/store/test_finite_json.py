"""JSON with a number that is not finite is refused, and the number is named."""

from __future__ import annotations

import pytest

from edgebench.host.store.finite_json import NotFinite, load_finite


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_number_that_is_not_finite_is_refused_by_name(number: str) -> None:
    """Otherwise a median of NaN would be neither above nor below any limit."""
    with pytest.raises(NotFinite, match=f"^{number} is not a finite number$"):
        load_finite(f'{{"p50": [1.0, {number}]}}')


def test_everything_else_is_what_python_reads() -> None:
    """Otherwise a number would lose its type or a digit."""
    text = b'{"a": [1, 1.5, -0.0, 1e-320, 123456789012345678901], "b": null, "c": "NaN"}'
    read = load_finite(text)
    assert read == {"a": [1, 1.5, 0.0, 1e-320, 123456789012345678901], "b": None, "c": "NaN"}
    assert isinstance(read["a"][0], int)


def test_long_number_is_not_repeated_in_full() -> None:
    """Otherwise a line of a megabyte would be printed."""
    with pytest.raises(NotFinite) as caught:
        load_finite("9" * 1000 + ".5")
    assert len(str(caught.value)) < 80
