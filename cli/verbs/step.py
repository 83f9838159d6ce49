"""``rayvous step``: a run in virtual time, moment by moment, in words or as a page that plays it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ...faults.plans.case_files import case_from_dict, case_to_dict
from ...faults.plans.cases import Case
from ...faults.stepping.player import Player, step
from ...protocol.errors import InputError
from ...protocol.scenarios.scenario import Scenario
from ...routing.schemes.registry import scheme as scheme_of
from .. import console
from ..inputs import scenario_or_case

_NEITHER = "no scenario and no case"


def run_step(
    given: Path,
    compare: str | None,
    out: Path | None,
    at_seconds: float | None,
    to: str | None,
    *,
    as_json: bool,
) -> dict[str, object]:
    """Record a run, print its moments or the network at one of them, write the page, and return what was printed.

    Raises
    ------
    InputError
        If a file is no scenario and no case, or there is no such moment; nothing was written then.
    """
    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"--out {out}: the file must end in .html")
    if given.is_dir():
        raise InputError(
            f"{given}: it is a folder, {_NEITHER}: a player makes a run again. What a trace tells: rayvous explain"
        )
    run = scenario_or_case(given, _NEITHER)
    beside = None if compare is None else _beside(run, compare)
    names = [given.stem, Path(compare).stem] if compare is not None and _is_file(compare) else []
    player = step(run, beside, names=names, title=given.stem if compare is None else "")
    if at_seconds is not None:
        player.at(at_seconds)
    if to is not None:
        player.to(to)
    here = at_seconds is not None or to is not None
    result = _result(player, here=here)
    if out is not None:
        result["out"] = str(player.save(out))
    if as_json:
        console.print_json(result)
        return result
    if here or out is None:
        for line in player.lines if here else player.story():
            console.out.print(line, markup=False, soft_wrap=True, highlight=False)
    notes = [f"not all is shown: {note}" for note in player.notes() if note]
    for line in [*notes, *([] if out is None else [f"player: {out}"])]:
        console.out.print(line, markup=False, soft_wrap=True, highlight=False)
    return result


def _result(player: Player, *, here: bool) -> dict[str, object]:
    result: dict[str, object] = {"moments": player.kinds(), "notes": player.notes()}
    runs = range(len(player.recordings))
    if here:
        result["then"] = [player.then(run).to_dict() for run in runs]
    else:
        result["runs"] = [
            [
                {"at_seconds": each.at_seconds, "kinds": list(each.kinds), "text": each.text}
                for each in player.recordings[run].moments
                if not each.quiet
            ]
            for run in runs
        ]
    return result


def _is_file(compare: str) -> bool:
    return compare.endswith(".json") or Path(compare).exists()


def _beside(run: Scenario | Case, compare: str) -> Scenario | Case:
    """Return the other run: that of another file, or the same one under another scheme."""
    if _is_file(compare):
        return scenario_or_case(Path(compare), _NEITHER)
    scheme_of(compare)
    if isinstance(run, Scenario):
        return replace(run, scheme=compare)
    return case_from_dict(case_to_dict(replace(run, scheme=compare)))


__all__ = ["run_step"]
