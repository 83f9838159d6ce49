"""``rayvous audit``: the verdict of the conditions on a trace in a folder."""

from __future__ import annotations

import time
from pathlib import Path

from ...faults.checker.reliability import judge
from ...faults.checker.verdict import Verdict
from ...protocol.errors import InputError
from ...protocol.traces.trace import Trace
from .. import console


def run_audit(folder: Path, *, spark: bool, as_json: bool) -> dict[str, object]:
    """Audit a trace, print the verdict, and return it as a mapping.

    Raises
    ------
    InputError
        If the folder is not a trace; nothing was started then.
    """
    from ...pipelines.audit.trace_files import check_folder

    rows = check_folder(folder)
    started = time.perf_counter()
    with console.steps() as steps:
        verdict = _in_spark(folder, steps) if spark else _here(folder, steps)
    result = {
        "trace": str(folder),
        "checked_by": "spark" if spark else "python",
        "seconds": time.perf_counter() - started,
        "rows": rows,
        **verdict.to_dict(),
    }
    if as_json:
        console.print_json(result)
        return result
    shown = {
        "trace": str(folder),
        "events published": verdict.events_published,
        "notifications expected": verdict.notifications_expected,
        "notifications delivered": verdict.notifications_delivered,
        **({"named losses": verdict.lost} if verdict.lost else {}),
        **console.conditions(verdict),
        "checked by": f"{result['checked_by']}, in {result['seconds']:,.1f} s",
    }
    console.print_table("rayvous audit", shown)
    console.print_verdict(verdict)
    return result


def _in_spark(folder: Path, steps: console.CommandProgress) -> Verdict:
    from ...pipelines.run import audit_folder

    steps.show("Spark", 0, 1)
    return audit_folder(folder, lambda done, total: steps.show("Spark", done, total))


def _here(folder: Path, steps: console.CommandProgress) -> Verdict:
    from ...pipelines.audit.trace_files import load_trace

    return judge(load_trace(folder), lambda done, total: steps.show("subscribers judged", done, total))


def check_trace_dir(folder: Path | None) -> None:
    """Raise InputError if no trace can be written there."""
    if folder is not None and folder.exists() and not folder.is_dir():
        raise InputError(f"--trace-dir {folder}: is a file, but must be a folder")


def keep_trace(folder: Path | None, trace: Trace | None) -> dict[str, str]:
    """Write a trace to `--trace-dir`; return the additions to the result."""
    if folder is None or trace is None:
        return {}
    from ...pipelines.audit.trace_files import save_trace

    return {"trace": str(save_trace(trace, folder))}
