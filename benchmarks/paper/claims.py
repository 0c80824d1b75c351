"""Every claim of the paper that can be put to the test: holds, does not, mixed, or cannot be judged; from the rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.experiments import pooled, tables
from benchmarks.experiments.cells import Count, Row
from benchmarks.experiments.figures import grouped, mean_and_error
from benchmarks.paper import costs, table_1, theory
from benchmarks.paper.claim import FALSE, HOLDS, MIXED, OPEN, Claim, judged, so_far
from benchmarks.paper.sources import Sources
from benchmarks.privacy import claims as of_privacy
from benchmarks.privacy.claims import OTHER_DRAW, of
from benchmarks.privacy.noise import AS_IT_IS
from benchmarks.privacy.text import percent, table

ENOUGH = 10  # cells: a difference within 3 sigma_mu of fewer says nothing
SMALL = 1.0  # percent: two starts are called equivalent if their difference is less, up to 3 sigma_mu


def starts(found: Sources) -> list[Claim]:
    """Table 1."""
    rows, count = found.rows["table_1"], found.counts["table_1"]
    pairs = [
        ("PD-NMF-Init is equivalent to `nnsvd`", "nnsvd", 0),
        ("PD-NMF-Init is equivalent to `random 2x`", "random 2x", 0),
        ("PD-NMF-Init is significantly better than `random`", "random", 1),
        ("PD-NMF-Init is significantly better than `best_of_M` as a start for joint sweeps", "best_of_M", 1),
        ("PD-NMF-Init is significantly better than the best local topics as they are", "best local topics", 1),
    ]
    claims = [_duel(rows, text, rival, wanted, count) for text, rival, wanted in pairs]
    return [
        *claims,
        _converges(found),
        _on_ratings(found.rows["starts_ratings"], [(rival, wanted) for _, rival, wanted in pairs[:4]], found),
        Claim(
            "§5.1",
            "PD-NMF-Init involves fewer rounds of communication than `random 2x`",
            OPEN,
            "each sweep is k SecSums, on topics as on rows: 20 + 20 sweeps, as here, are as many rounds as 2 × 20; the "
            "paper does not say how many it made",
            "`algorithms/nmf_start.py`",
        ),
    ]


def _duel(rows: list[Row], text: str, rival: str, wanted: int, count: Count) -> Claim:
    """wanted : 1, the rival is worse; 0, it is equivalent.

    In all three measures of the paper it holds, in its first (the error) and not in all it is mixed.
    """
    if count.full < ENOUGH:
        return Claim("Table 1", text, OPEN, "no cell" if not rows else "too few cells", count.text)
    found = {name: _above(rows, name, rival, sign) for name, _, sign in table_1.MEASURES}
    agreed = [above.agrees(wanted) for above in found.values()]
    texts = [f"{'C_V' if name == 'c_v' else name} {above.text}" for name, above in found.items()]
    verdict = so_far(HOLDS if all(agreed) else MIXED if any(agreed) else FALSE, count)
    return Claim("Table 1", text, verdict, f"{rival} against PD-NMF-Init (± 3 σ_μ): {'; '.join(texts)}", count.text)


class Above(NamedTuple):
    """By how many percent a rival is above PD-NMF-Init, sign: 1 if that is worse; +- 3 sigma_mu"""

    mean: float
    interval: float
    sign: int

    def agrees(self, wanted: int) -> bool:
        """1: it is worse by more than chance; 0: equivalent, neither worse nor better, and not by SMALL either."""
        if wanted:
            return bool(self.sign * self.mean > self.interval)
        return bool(abs(self.mean) <= self.interval < SMALL - abs(self.mean))

    @property
    def text(self) -> str:
        return f"{self.mean:+.2f} ± {self.interval:.2f} %"


def _above(rows: list[Row], name: str, rival: str, sign: int) -> Above:
    mean, error = mean_and_error(table_1.above_ours(rows, name, rival))
    return Above(mean, 3 * error, sign)


def _converges(found: Sources) -> Claim:
    """By the error of Table 1: after as many sweeps, and after twice as many."""
    rows, count = found.rows["table_1"], found.counts["table_1"]
    claim = "From `random` it converges slowly, from `nnsvd` and PD-NMF-Init quickly"
    if count.full < ENOUGH:
        return Claim("§2", claim, OPEN, "too few cells", count.text)
    slow, twice, quick = (_above(rows, "error", start, 1) for start in ("random", "random 2x", "nnsvd"))
    agreed = [slow.agrees(1), twice.agrees(0), quick.agrees(0)]
    figures = (
        f"error after {pooled.SWEEPS} sweeps against that from PD-NMF-Init (± 3 σ_μ): random {slow.text}, nnsvd "
        f"{quick.text}; random after twice as many {twice.text}. The sweeps on topics that PD-NMF-Init takes before "
        "are not counted"
    )
    verdict = HOLDS if all(agreed) else MIXED if any(agreed) else FALSE
    return Claim("§2", claim, so_far(verdict, count), figures, count.text)


def _on_ratings(rows: list[Row], wanted: list[tuple[str, int]], found: Sources) -> Claim:
    """The claims of Table 1, of the RMSE after as many sweeps, in cells in which no start has lost all topics."""
    rows, count = of(rows, tau=str(pooled.SWEEPS)), found.counts["starts_ratings"]
    claim, verdict = "The four claims on starts hold for ratings, too (RMSE)", OPEN
    figures = "no cell of the paper's size; the small grid is in [experiments.md](experiments.md#starts-on-ratings)"
    if rows:
        died = {table_1.cell_of(row) for row in rows if row.get("topics") == "0"}
        alive = [row for row in rows if table_1.cell_of(row) not in died]
        compared = {rival: _above(alive, "rmse", rival, 1) for rival, _ in wanted}
        agreed = [compared[rival].agrees(sign) for rival, sign in wanted]
        if count.full >= ENOUGH:
            verdict = so_far(HOLDS if all(agreed) else MIXED if any(agreed) else FALSE, count)
        figures = f"RMSE against PD-NMF-Init's after {pooled.SWEEPS} sweeps (± 3 σ_μ): {_listed(compared)}"
        if died:
            whole = {rival: _above(rows, "rmse", rival, 1) for rival, _ in wanted}
            figures += (
                f". That is without {len(died)} cell(s) in which a start has lost all topics "
                f"([why](experiments.md#recommender)); with them {_listed(whole)}"
            )
    return Claim("§5.1", claim, verdict, figures, count.text)


def _listed(found: dict[str, Above]) -> str:
    return "; ".join(f"{rival} {above.text}" for rival, above in found.items())


def gains(found: Sources) -> list[Claim]:
    """What joining brings, by party size."""
    claims = []
    for name, what, where in (
        ("topics", "topics", "Fig. 4 (a)"),
        ("lra", "low rank", "Fig. 5"),
        ("recommender", "recommender", "Fig. 4 (b)"),
    ):
        rows, count, more = found.rows[name], found.counts[name], ""
        if not rows:
            rows, more = of(of(found.rows["noise"], experiment=name), method="exact"), "; k = 7 of the grid with DP"
        if name == "recommender" and (died := [row for row in rows if float(row["uplift_percent"]) < tables.DIED]):
            ranks = ", ".join(sorted({row["k"] for row in died}, key=int))
            more = f"; in {len(died)}, of k = {ranks}, all common topics died ([why](experiments.md#recommender))"
        claims += _gains(where, what, rows, "uplift_percent", count, more)
    for value, what in (("uplift_percent", "PCR, beta of all rows"), ("own_beta_percent", "PCR, beta of own rows")):
        claims += _gains("Fig. 5", what, found.rows["pcr"], value, found.counts["pcr"], "; News and Songs")
    return [*claims, *_by_parties(found), *_recommender(found)]


def _gains(where: str, what: str, rows: list[Row], value: str, count: Count, more: str) -> list[Claim]:
    """All gain; small parties most: settings are data, form and k; judged by twice the error of a mean over trials."""
    basis = f"{count.text}{more if rows else ''}"
    if not rows:
        return [Claim(where, f"Parties of all sizes gain by joining ({what})", OPEN, "no cell", basis)]
    names = [n for n in ("data", "form", "k", "party_share") if n in rows[0]]
    groups = {key: mean_and_error(v) for key, v in grouped(rows, lambda r: tuple(r[n] for n in names), value).items()}
    gain = sum(mean > 2 * error for mean, error in groups.values())
    loss = sum(mean < -2 * error for mean, error in groups.values())
    by_size = grouped(rows, lambda r: (r["party_share"],), value)
    means = {share: float(np.mean(v)) for (share,), v in sorted(by_size.items(), key=lambda item: float(item[0][0]))}
    shown = ", ".join(f"{percent(share)}: {mean:+.2f} %" for share, mean in means.items())
    all_gain = HOLDS if gain == len(groups) else FALSE if gain == 0 else MIXED
    curves = tables.smallest_gain_most(rows, value)
    most, total = int(curves.split(" of ")[0]), int(curves.split(" of ")[1].split()[0])
    return [
        Claim(
            where,
            f"Parties of all sizes gain by joining ({what})",
            so_far(all_gain, count),
            f"by more than 2 σ_μ a gain in {gain}, a loss in {loss} of {len(groups)} settings; means {shown}",
            basis,
        ),
        Claim(
            where,
            f"Small parties gain most ({what})",
            so_far(HOLDS if most == total else FALSE if most == 0 else MIXED, count),
            f"the smallest size has the largest gain in {curves}",
            basis,
        ),
    ]


def _by_parties(found: Sources) -> list[Claim]:
    """3 % each, k = 7: between fewest and most parties, by twice the error of the difference."""
    claims = []
    for data, what in (("Enron", "topics"), ("ML-1M", "recommender")):
        rows = of(found.rows["by_parties"], data=data)
        groups = grouped(rows, lambda r: (r["M"],), "uplift_percent")
        means = {M: mean_and_error(v) for (M,), v in sorted(groups.items(), key=lambda item: int(item[0][0]))}
        count = found.count("by_parties", lambda settings, data=data: bool(settings["data"] == data))  # type: ignore[misc]
        claim, verdict, shown = f"Gains are significant, especially for small M ({what})", OPEN, "no cell"
        if len(means) > 1:
            (few, e), *_, (many, f) = means.values()
            falls = few - many > 2 * np.hypot(e, f)
            gains = [mean > 2 * error for mean, error in means.values()]
            verdict = HOLDS if falls and all(gains) else MIXED if falls or any(gains) else FALSE
            shown = (
                ", ".join(f"M = {M}: {mean:+.2f} ± {error:.2f} %" for M, (mean, error) in means.items()) + " (± σ_μ)"
            )
        claims.append(Claim("§5.1", claim, so_far(verdict, count), f"3 % each: {shown}", count.text))
    return claims


def _recommender(found: Sources) -> list[Claim]:
    """Against each party's own model, tuned as well as the common one, and against no model at all."""
    rows, count = found.rows["ratings"], found.counts["ratings"]
    claim = "A recommender gains significantly by joining, each side tuned on its own validation ratings"
    if not rows:
        return [Claim("Fig. 4 (b)", claim, OPEN, "no cell", count.text)]
    tuned, plain = (
        {
            share: mean_and_error(v)
            for (share,), v in grouped(of(rows, method=method), lambda r: (r["party_share"],), "uplift_percent").items()
        }
        for method in ("each tuned", "user's mean")
    )
    over_own, over_mean = ([mean > 2 * error for mean, error in f.values()] for f in (tuned, plain))
    verdict = HOLDS if all(over_own + over_mean) else MIXED if any(over_own) else FALSE
    shown = "; ".join(
        f"{percent(s)}: {of_privacy.uplift(tuned[s])}, over the user's mean {of_privacy.uplift(plain[s])}"
        for s in sorted(tuned, key=float)
    )
    figures = (
        f"{shown} (± σ_μ). A gain over the party's own model in {sum(over_own)}, over the user's mean in "
        f"{sum(over_mean)} of {len(tuned)} sizes; the mean of a user's ratings needs neither a model nor other parties"
    )
    return [Claim("Fig. 4 (b)", claim, so_far(verdict, count), figures, f"{count.text}; k = 7")]


def privacy(found: Sources) -> list[Claim]:
    """KSDP and what noise costs, by the paper's statistics."""
    nmf, svd, noise = (found.rows[name] for name in ("nmf", "svd", "noise"))
    n, s = (found.counts[name] for name in ("nmf", "svd"))
    claims = []
    plain = of(nmf, start="random", view="pd-nmf")
    if plain:
        claims += [
            judged("Table 2", of_privacy.high(plain, "PD-NMF", "pd-nmf"), n),
            judged("Table 2", of_privacy.private(plain, "PD-NMF", "pd-nmf"), n),
            judged("Table 2", of_privacy.size(plain, "PD-NMF"), n),
            judged("§5.1", of_privacy.most_telling(plain), n),
        ]
    if found.rows["nmf_starts"]:
        init = of_privacy.init(found.rows["nmf_starts"])
        claims.append(judged("§5.1, left open there", init, found.counts["nmf_starts"]))
    if svd:
        both = [row for row in svd if row["view"] in ("pd-svd", "sigma")]
        claims += [
            judged("Fig. 6", of_privacy.high(svd, "PD-SVD", "pd-svd"), s),
            judged("§5.2", of_privacy.high(svd, "Σ-revealing SVD", "sigma"), s),
            judged("Fig. 6", of_privacy.private(svd, "PD-SVD", "pd-svd"), s),
            judged("Fig. 6", of_privacy.hiding(svd, found.rows[OTHER_DRAW]), s),
            judged("§5.2", of_privacy.bounds(svd, found.rows["levels"]), s),
            judged("Fig. 6", of_privacy.size(both, "SVD", found.rows[OTHER_DRAW]), s),
        ]
    return claims + _with_noise(noise, found)


def _with_noise(rows: list[Row], found: Sources) -> list[Claim]:
    """Each judged on the cells of its own experiments, and of News alone where it is about News."""

    def of_experiments(*names: str, data: str = "") -> Count:
        return found.count("noise", lambda s: s["experiment"] in names and (not data or s["data"] == data))

    claims, have = [], {row["experiment"] for row in rows}
    if have & {"pcr", "lra"}:
        count = of_experiments("pcr", "lra")
        claims += [(of_privacy.noise(rows, beta), count) for beta in ("own rows", "all rows")]
    if AS_IT_IS in have:
        claims.append((of_privacy.exception(rows, AS_IT_IS), of_experiments(AS_IT_IS, data="News")))
    if have & {"topics", "recommender"}:
        claims.append((of_privacy.noise_in_nmf(rows), of_experiments("topics", "recommender")))
    found_claims = [judged("Fig. 4 (c), 5", answer, count) for answer, count in claims]
    if have & {"pcr", "lra"}:
        found_claims.append(judged("§5.2", of_privacy.unpredictable(rows), of_experiments("pcr", "lra")))
    return found_claims


def all_claims(found: Sources) -> list[Claim]:
    return [
        *theory.theory(found),
        *starts(found),
        *gains(found),
        *privacy(found),
        *costs.costs(costs.PERFORMANCE.read_text(encoding="utf-8")),
    ]


def claims_table(claims: list[Claim]) -> list[str]:
    rows = [[c.where, c.claim, f"**{c.verdict}**", c.figures, c.basis] for c in claims]
    return table(["where", "claim", "verdict", "figures", "judged on"], rows)


def summary(claims: list[Claim]) -> str:
    plural = {HOLDS: "hold", FALSE: "do not hold", MIXED: "are mixed", OPEN: "cannot be judged"}
    counts = [f"{sum(c.verdict.startswith(v) for c in claims)} {words}" for v, words in plural.items()]
    return f"Of {len(claims)} claims {', '.join(counts)}."
