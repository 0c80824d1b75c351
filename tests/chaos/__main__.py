"""python -m tests.chaos: hundreds of runs under attack, a table of how many held, a seed for each that did not.

python -m tests.chaos                               as `make chaos`
python -m tests.chaos --only relay --seed 1234      one case again (what depends on the clock may come out otherwise)
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import datetime as dt
import multiprocessing
import os
import platform
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.attempts import BY_NAME, Outcome, attempt, drawn

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
BEGIN, END = "<!-- chaos: written by `make chaos` -->", "<!-- chaos: end -->"


def table(outcomes: list[Outcome], seconds: float) -> str:
    rows = ["| what is done to a run | cases | run ended by it | held | failed |", "| --- | --- | --- | --- | --- |"]
    cases = collections.Counter(o.kind for o in outcomes)
    struck = collections.Counter(o.kind for o in outcomes if o.struck)
    failed = collections.Counter(o.kind for o in outcomes if o.wrong)
    for name, kind in BY_NAME.items():
        if cases[name]:
            said = " ".join((kind.__doc__ or "").split()).rstrip(".")
            counts = [cases[name], struck[name], cases[name] - failed[name], failed[name]]
            rows.append(f"| `{name}`: {said} | {' | '.join(map(str, counts))} |")
    counts = [sum(c.values()) for c in (cases, struck, cases - failed, failed)]
    rows.append(f"| **all** | {' | '.join(f'**{n}**' for n in counts)} |")
    machine = f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"
    return "\n".join([*rows, "", f"{dt.date.today()}, commit {commit()}, {seconds / 60:.0f} minutes on {machine}."])


def commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=PAGE.parent, capture_output=True, text=True, check=False).stdout

    changed = any(line[3:] != "docs/testing.md" for line in git("status", "--porcelain", "-uno").splitlines())
    return f"{git('rev-parse', '--short', 'HEAD').strip() or 'unknown'}{' and changes' if changed else ''}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--cases", type=int, default=520)
    parser.add_argument("--seed", type=int, help="of all cases, or of the one case of --only")
    parser.add_argument("--only", choices=list(BY_NAME), help="one kind")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--minutes", type=float, default=30.0, help="no case is begun after them")
    parser.add_argument("--page", action="store_true", help="write the table to docs/testing.md")
    given = parser.parse_args()
    seed = secrets.randbelow(10**6) if given.seed is None else given.seed
    wanted = drawn(given.cases, seed)
    if given.only:
        wanted = [w for w in wanted if w[0] == given.only] if given.seed is None else [(given.only, seed)]
    print(f"{len(wanted)} cases, seed {seed}", flush=True)
    began, outcomes = time.monotonic(), []
    state = tempfile.TemporaryDirectory(prefix="chaos-state-")
    os.environ |= {"XDG_STATE_HOME": state.name, "XDG_DATA_HOME": state.name}  # the user's own is left alone
    context, until = multiprocessing.get_context("spawn"), began + 60 * given.minutes
    with concurrent.futures.ProcessPoolExecutor(given.workers, mp_context=context) as pool:
        for future in concurrent.futures.as_completed([pool.submit(attempt, *case, until) for case in wanted]):
            if (outcome := future.result()) is None:
                continue
            outcomes.append(outcome)
            if outcome.wrong:
                print(f"FAILED python -m tests.chaos --only {outcome.kind} --seed {outcome.seed}", flush=True)
                print(f"{outcome.wrong}\n", flush=True)
            elif len(outcomes) % 20 == 0:
                print(f"{len(outcomes)} of {len(wanted)}, {(time.monotonic() - began) / 60:.1f} minutes", flush=True)
    shown = table(outcomes, time.monotonic() - began)
    print(shown)
    if given.page and not given.only:
        text = PAGE.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{shown}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    return 1 if any(o.wrong for o in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
