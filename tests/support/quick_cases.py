"""Long lists of cases: some in the quick suite, all of them with `make test-all`."""

import pytest


def sample_cases(cases, *, every):
    """Each `every`-th case is quick, beginning with the first; the others are slow."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=pytest.mark.slow if number % every else (),
        )
        for number, case in enumerate(cases)
    ]
