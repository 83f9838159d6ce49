"""``rayvous doctor``: which requirements of Rayvous this machine meets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Final

import typer
from rich.table import Table

from .. import console
from ..doctor import CHECKS, Finding, State, take
from ..options import AsJson

SECONDS: Final = 30.0
STYLES: Final[dict[State, str]] = {"ok": "green", "missing": "yellow", "wrong": "bold red"}


def doctor(
    timeout: Annotated[
        float, typer.Option(min=1, max=600, help="Timeout of all checks together, in seconds.")
    ] = SECONDS,
    as_json: AsJson = False,
) -> int:
    """Check whether this machine has what Rayvous needs, and print the commands that install what is missing.

    Checks Python and packages, Ray, Java, memory, disk, ports, the kernel, a compiler and a browser. Nothing is started
    or changed. Exit status 1 if a requirement of every network is not met ("wrong"); what is "missing" is needed only
    by some features.

    Examples
    --------
      rayvous doctor
      rayvous doctor --json
    """
    findings = take(CHECKS, timeout)
    counts = Counter(finding.state for finding in findings)
    if as_json:
        result: dict[str, object] = {"findings": [asdict(finding) for finding in findings]}
        console.print_json(result | {state: counts[state] for state in STYLES})
    else:
        console.out.print(_table(findings))
        console.out.print(f"{counts['ok']} ok, {counts['missing']} missing, {counts['wrong']} wrong")
    return 1 if counts["wrong"] else 0


def _table(findings: Sequence[Finding]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column()
    table.add_column(style="cyan")
    table.add_column(overflow="fold")
    for finding in findings:
        said = console.cell(finding.said)
        if finding.todo:
            said.append(f"\n$ {finding.todo}", style="bold")
        table.add_row(console.cell(finding.state, STYLES[finding.state]), console.cell(finding.name), said)
    return table
