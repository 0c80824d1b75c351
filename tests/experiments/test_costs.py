"""What the paper says of costs follows docs/performance.md, whatever that has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.paper import costs
from benchmarks.paper.claim import FALSE, HOLDS, MIXED, OPEN

PAGE = costs.PERFORMANCE.read_text(encoding="utf-8")


def table(*lines: str) -> str:
    head, *rest = lines
    return "\n".join([head, "|" + " --- |" * (head.count("|") - 1), *rest]) + "\n"


@pytest.mark.parametrize(
    ("text", "seconds"), [("5.42 ms", 0.00542), ("1,185 s", 1185.0), ("63 (60.5 .. 67) ms", 0.063), ("366 µs", 366e-6)]
)
def test_times_are_read_as_they_are_written(text: str, seconds: float) -> None:
    assert costs.seconds(text) == pytest.approx(seconds)


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="'3 MB' is not a time"):
        costs.seconds("3 MB")


@pytest.mark.parametrize(
    ("iterations", "offline", "expected"),
    [(("10 ms", "10 ms"), "1 ms", HOLDS), (("30 ms", "11 ms"), "60 ms", MIXED), (("30 ms", "20 ms"), "60 ms", FALSE)],
)
def test_overhead_is_that_of_iterations_beside_secsum(iterations: tuple[str, str], offline: str, expected: str) -> None:
    lines = ["| algorithm | engine | n | d | k | M | iteration | offline |"]
    for n, seconds in zip(("300", "30,000"), iterations, strict=True):
        lines.append(f"| svd | secsum | {n} | 1,000 | 7 | 3 | 10 ms | 0 s |")
        lines.append(f"| svd | embedded | {n} | 1,000 | 7 | 3 | {seconds} | {offline} |")
    assert costs._overhead(table(*lines)).verdict == expected


@pytest.mark.parametrize(
    ("tau", "found", "expected"), [("300", "9 s", HOLDS), ("300", "1,900 s", FALSE), ("60", "9 s", OPEN)]
)
def test_low_rank_is_judged_where_all_iterations_were_made(tau: str, found: str, expected: str) -> None:
    head = "| engine | scenario | network | M | d | tau | found | forecast | whole |"
    lines = [
        f"| secsum | LRA by SecSum | loopback | 3 | 10,000 | {tau} | {found} | 1 s | 1 s |",
        "| embedded | LRA | loopback | 3 | 10,000 | 60 | 10.8 s | 10.2 s | 48 s |",
    ]
    claim = costs._low_rank(table(head, *lines))
    assert claim.verdict == expected
    assert claim.figures.startswith(f"{found} for {tau} iterations.")
    assert (
        "48 s with the offline phase are forecast for 300 from two short runs; one of 60 took 10.8 s" in claim.figures
    )


def test_sweeps_are_less_than_rows_from_some_number_of_rows_on() -> None:
    head = "| algorithm | engine | n | d | k | M | sent MB | data MB |"
    claim = costs._less_than_all_rows(table(head, "| nmf | secsum | 2,000 | 10,000 | 7 | 5 | 4.48 MB | 32 MB |"))
    assert "20 sweeps send 179 MB, all parties together" in claim.figures  # 2 x 4 x 2 x 7 x 10,000 numbers each
    assert "more from about 560 rows a party on" in claim.figures


@pytest.mark.parametrize(
    ("sent", "cpu", "expected"),
    [
        (lambda M, d: (M - 1) * (d + 100), lambda M, d: 10 + M * d, HOLDS),
        (lambda M, d: (M - 1) * d**1.5, lambda M, d: M * d, MIXED),
        (lambda M, d: M**2 * d, lambda M, d: M * d, MIXED),
        (lambda M, d: M * d, lambda M, d: M * d**1.5, MIXED),
        (lambda M, d: M**2 * d**2, lambda M, d: M**2 * d**2, FALSE),
    ],
)
def test_growth_is_that_of_bytes_and_seconds(
    sent: Callable[[int, int], float], cpu: Callable[[int, int], float], expected: str
) -> None:
    head = "| engine | M | d | offline | cpu | online MB |"
    lines = [
        f"| embedded, {where} (31 bits) | {M} | {d:,} | 0 s | {cpu(M, d):.6f} s | {sent(M, d):.6f} MB |"
        for where in ("cold", "in a fit")
        for M in (2, 3, 4, 5)
        for d in (100, 1000, 10_000)
    ]
    assert costs._normed_sum(table(head, *lines)).verdict == expected


def test_every_claim_on_costs_has_its_figures_on_the_page() -> None:
    claims = costs.costs(PAGE)
    assert len({claim.claim for claim in claims}) == len(claims) == 9
    assert all(claim.figures and claim.basis for claim in claims)
