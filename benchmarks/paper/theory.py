"""What the paper states and proves, or prints as a box: judged by computations."""

from __future__ import annotations

from benchmarks.experiments.figures import mean_and_error
from benchmarks.paper.claim import FALSE, HOLDS, MIXED, OPEN, Claim
from benchmarks.paper.sources import Sources
from benchmarks.privacy import levels
from benchmarks.privacy.claims import of, pair
from pdml_spdz.privacy import level_mechanism as level


def theory(found: Sources) -> list[Claim]:
    """What is stated and proved, or printed as a box."""
    e = found.errata
    exact, sent = e["theorem_1"], e["communication"]
    spdz, box, clip, bound = e["accumulation"], e["pca_box"], e["clip"], e["bound"]
    errata = "[errata](paper.md#what-does-not-hold-as-printed)"
    return [
        Claim(
            "Theorem 1",
            "PD-NMF-Iter between M parties is RRI-NMF on all rows",
            HOLDS,
            f"topics of {', '.join(exact['M'])} parties differ by {exact['T']:.0e} of their largest entry from those "
            "of the pooled rows after 20 sweeps, by SecSum of 44 bits",
            "digits; `tests/nmf/test_theorem_1.py`",
        ),
        Claim(
            "Theorem 2",
            "E_T̂(Z) is an upper bound of E_X(Z), which is worst-case tight",
            FALSE,
            f"smaller for {e['theorem_2']['false']} of {e['theorem_2']['bases']} random Z; corrected, it holds for all",
            errata,
        ),
        Claim(
            "Theorem 2",
            "PD-NMF-Init is private if PD-NMF-Iter is",
            OPEN,
            "it sends what PD-NMF-Iter on the parties' topics sends, and nothing else; but what makes a run on topics "
            "private for the rows that they are of is not said",
            "`tests/nmf/test_init.py`",
        ),
        _init_alone(e["init_alone"]),
        Claim(
            "Theorem 3",
            "PD-SVD finds V_k of all rows, up to the precision of the numbers",
            HOLDS,
            f"sine of the largest angle to V_k of the pooled rows {e['theorem_3']['sine']:.0e}",
            "digits, k = 5, power; `tests/unit/test_svd.py`",
        ),
        Claim(
            "abstract",
            "The protocols are communication optimal",
            FALSE,
            "as printed, everyone to everyone, a sum of five parties takes "
            f"{sent['5']['mesh'] / sent['5']['aggregator']:.1f} times the bytes of sending it through one of them; "
            "independent of n, as it says",
            errata,
        ),
        Claim(
            "Alg. 1",
            "Each update of a topic minimises the objective over that topic",
            FALSE,
            f"in the printed order (clip, then project) the objective rose in {clip['printed']} of {clip['updates']} "
            f"updates; without the clip in {clip['ours']}",
            errata,
        ),
        Claim(
            "Alg. 6",
            "Subtracting a multiple of the party's own mean gives PCA",
            FALSE,
            f"sine {box['printed']:.2f} as printed, {box['global_mean']:.0e} with the mean of all rows",
            errata,
        ),
        Claim(
            "Alg. 7",
            "NormedSecSum returns a vector of length 1",
            FALSE,
            f"as printed, squares are not added up: length {spdz['median']:.0f} in the median",
            errata,
        ),
        Claim(
            "App. E",
            "‖XᵀX‖₂ ≤ ‖(X⁽ᵐ⁾)ᵀX⁽ᵐ⁾‖_F",
            FALSE,
            f"{bound['left']:.3g} against {max(bound['of_parties']):.3g}; with the sum over m {bound['sum']:.3g}",
            errata,
        ),
        Claim(
            "App. E",
            "Scaled by the bound, the integer part of what NormedSecSum adds up is always 0",
            MIXED,
            f"by the bound as printed S x can be {bound['left'] / min(bound['of_parties']):.1f} long; by the sum over "
            "m it is at most 1 long, and no entry is more than 1. ‖S x‖₁, of which the paper says so, reaches "
            f"{bound['l1']:.1f}",
            errata,
        ),
        _iterations(found),
        Claim(
            "§5.2",
            "A party's effective size is that of all who do not collude",
            OPEN,
            "that a coalition sees no more than the sum of the others' parts holds, by construction and by simulation; "
            "that the p of a record is then that of one party with as many rows follows where their rows are alike. "
            "p was measured for one party alone, here as in the paper",
            "`tests/properties/test_sec_sum_simulation.py`",
        ),
        Claim(
            "§5.1",
            "Hyperband needs PD-NMF and SecSum alone",
            HOLDS,
            "built so: the parties add up squared errors on their own validation ratings; every party chooses the same "
            "penalties",
            "`pdml_spdz/applications/recommender.py`, `tests/applications/test_recommender.py`",
        ),
    ]


def _init_alone(above: dict[str, list[float]]) -> Claim:
    """As good: by at most twice the error of the mean."""
    found = {name: mean_and_error(values) for name, values in above.items()}
    worse = sum(mean > 2 * error for mean, error in found.values())
    shown = ", ".join(f"{name} {mean:+.2f} ± {error:.2f} %" for name, (mean, error) in found.items())
    return Claim(
        "§1",
        "PD-NMF-Init alone matches the quality of the centralised solution",
        FALSE if worse == len(found) else MIXED if worse else HOLDS,
        f"its error without a sweep on the rows is above that of `nnsvd` and 20 sweeps on all rows by {shown} (± σ_μ)",
        "M = 3, 10 %, k = 20, five trials; with 20 sweeps: Table 1",
    )


def _iterations(found: Sources) -> Claim:
    """In rows of few features power shows nearly all of c S, in mail a part of it, from which little follows here."""
    seen, mail = found.errata["iterations"], of(found.rows["shows"], data="Enron", solver="power")[0]
    figures = (
        f"digits: {seen['power']['iterations']} iterations of power show c S on {seen['power']['dimensions']} of 64 "
        f"dimensions to {seen['power']['error']:.0e} of ‖S‖; V_k and Σ together leave {seen['V_k']['error']:.0e} of it "
        f"unknown. Mail: on {mail['dimensions']} of {int(mail['d']):,}, and {100 * float(mail['unknown']):.0f} % of S "
        "stay unknown"
    )
    much_more = [seen["power"]["error"] < seen["V_k"]["error"]]
    for row in of(found.rows["levels"], view=level.VECTORS, data="Enron"):
        (power,) = pair(found.rows["levels"], row, level.BY_POWER)
        (krylov,) = pair(found.rows["levels"], row, level.BY_KRYLOV)
        more, low, high = levels.difference(power, row)
        much_more.append(low > 0)
        by_power, alone, by_krylov = (f"{r['paper_flagged']} ({r['flagged']})" for r in (power, row, krylov))
        figures += (
            f"; of {row['records']} records (in brackets: by all statistics) an observer of V_k alone distinguishes "
            f"{alone}, of power {by_power}, of krylov, which the paper does not have, {by_krylov}; by all statistics "
            f"power has {more:+d} beside V_k alone (95 % interval {low:+.1f} to {high:+.1f})"
        )
    verdict = FALSE if all(much_more) else MIXED if any(much_more) else HOLDS
    basis = "[errata](paper.md#what-does-not-hold-as-printed), [levels](privacy-results.md)"
    return Claim("§5.2", "V_k over τ iterations gives not much more than V_k once", verdict, figures, basis)
