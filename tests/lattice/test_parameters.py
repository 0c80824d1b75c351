"""A parameter set checks itself: security by the tables, noise in the worst case, flooding."""

from __future__ import annotations

import dataclasses
import json
from math import log2

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml_spdz.cli.programs import precision
from pdml_spdz.errors import StudyError
from pdml_spdz.lattice import cost, security_tables
from pdml_spdz.lattice.packing import Packing
from pdml_spdz.lattice.parameters import InsecureParameters, Parameters
from pdml_spdz.lattice.response import Responder
from pdml_spdz.lattice.ring_parameters import FLOODING, RUN
from pdml_spdz.numerics import ring
from tests.lattice.one_pair import Pair
from tests.lattice.parties import integers
from tests.lattice.test_simulation import PARAMETERS

CHOSEN = Parameters.choose(M=3, n=64, i=64, c=840, w=192, bits=54)


class Forced(Parameters):
    """Parameters that do not look at themselves."""

    def __post_init__(self) -> None: ...

    @property
    def flooding_bits(self) -> int:
        return PARAMETERS.flooding_bits  # what 64 bits ask for, whether there is room or not


def results(p: Parameters) -> tuple[np.ndarray, np.ndarray]:
    """(what both shares add up to, S R) of one response at its largest noise."""
    pair = Pair(p, np.full((4, 4), (1 << 54) - 1))
    products, wanted = pair.products()
    response = Responder(p, pair.holder.public).respond(products, wanted)
    total = ring.add(response.share, pair.holder.decrypt(response.c1, response.c0, wanted))
    return integers(total) % (1 << p.w), pair.product()


def test_one_prime_too_few_fails_its_own_check_and_decrypts_wrongly_when_forced() -> None:
    found, wanted = results(PARAMETERS)
    assert np.array_equal(found, wanted)
    fields = {f.name: getattr(PARAMETERS, f.name) for f in dataclasses.fields(Parameters)} | {"count": 12}
    with pytest.raises(StudyError, match="noise budget does not add up"):
        Parameters(**fields)
    found, wanted = results(Forced(**fields))
    assert np.mean(found == wanted) < 0.01


def test_the_smaller_of_both_tables_counts() -> None:
    assert security_tables.longest_modulus(16384) == 430
    assert security_tables.longest_modulus(32768) == 868
    assert security_tables.longest_modulus(1000) == 0
    with pytest.raises(StudyError, match="less than 128 bits of security"):
        dataclasses.replace(PARAMETERS, count=18)
    assert log2(dataclasses.replace(PARAMETERS, count=17).q) < 430


def test_a_small_ring_is_refused_unless_its_name_says_insecure() -> None:
    small = Packing(4, 4, 4, 1, 4, 4, 4)
    with pytest.raises(StudyError, match="less than 128 bits of security"):
        Parameters(2, small, w=64, bits=20, N=256, count=8)
    assert InsecureParameters(2, small, w=64, bits=20, N=256, count=8).secure is False


def test_what_cannot_fit_says_what_would() -> None:
    with pytest.raises(StudyError, match="cut the left matrix into digits"):
        Parameters.choose(M=3, n=4, i=4, c=4, w=512, bits=511)
    with pytest.raises(StudyError, match="1 or more"):
        Parameters.choose(M=3, n=0, i=4, c=4, w=64, bits=10)
    with pytest.raises(StudyError, match="multiple of 32"):
        dataclasses.replace(PARAMETERS, w=190)
    with pytest.raises(StudyError, match="coefficients"):
        dataclasses.replace(PARAMETERS, packing=Packing(4, 4, 1100, 1, 4, 4, 1100))


@settings(max_examples=15, deadline=None)
@given(
    n=st.integers(1, 200),
    i=st.integers(1, 200),
    c=st.integers(1, 500),
    w=st.sampled_from((64, 128, 192, 224, 256)),
    bits=st.integers(8, 62),
)
def test_a_chosen_set_adds_up_and_is_secure(n: int, i: int, c: int, w: int, bits: int) -> None:
    p = Parameters.choose(M=3, n=n, i=i, c=c, w=w, bits=bits)
    assert all(used <= room for _, used, room, _ in p.budget())
    assert log2(p.q) <= security_tables.longest_modulus(p.N)
    assert p.noise <= 2.0 ** (p.flooding_bits + 1 - FLOODING)
    worst = (p.noise + 2**p.flooding_bits) * 2.0**p.travel_bits / p.q + (p.N + 1) * 0.51
    assert worst < 2.0 ** (p.travel_bits - p.w - 1)


def test_the_layout_is_the_cheapest_of_those_that_fit() -> None:
    p = CHOSEN
    price = cost.price(p.packing, 3, p.N, p.count, p.travel_bits)
    for packing in cost.layouts(p.N, 64, 64, 840, 1):
        primes = Parameters.primes_needed(p.N, packing.terms, 192, 54)
        assert primes is None or price <= cost.price(packing, 3, p.N, primes, p.travel_bits)


def test_parameters_explain_themselves() -> None:
    text = PARAMETERS.explain()
    for line in ("log2 q = 324.0", "128 bits", "2018", "2024", "flooding", "worst case", "MB"):
        assert line in text
    assert PARAMETERS.digest != dataclasses.replace(PARAMETERS, bits=53).digest


def test_the_command_explains_a_product() -> None:
    run = CliRunner().invoke(precision, ["--sealed", "--dim", "64", "--columns", "840", "--parties", "3"])
    assert (run.exit_code, run.output.rstrip()) == (0, CHOSEN.explain())
    found = json.loads(CliRunner().invoke(precision, ["--sealed", "--json"]).output)
    assert found["q"] == CHOSEN.q
    assert found["packing"]["n"] == 64
    assert {line["line"] for line in found["budget"]} >= {"security", "flooding", "flooding of a run", "decryption"}


def test_the_command_says_what_would_fit() -> None:
    run = CliRunner().invoke(precision, ["--sealed", "--ring", "512", "--left-bits", "511"])
    assert isinstance(run.exception, StudyError)
    assert "cut the left matrix into digits" in str(run.exception)


def test_flooding_has_room_for_all_that_a_long_run_returns() -> None:
    # Products with C of 64 columns at d = 1,024 between 15 parties: 2^26 coefficients and more.
    p = Parameters.choose(M=15, n=1024, i=1024, c=64 * 160, w=256, bits=70)
    assert p.returned > 2**26
    assert p.distance <= -RUN
