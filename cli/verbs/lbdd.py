"""``rayvous experiment lbdd``: paper 5's tables and figures, with ours beside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...protocol.errors import InputError
from .. import console
from ..inputs import folder
from ..options import AsJson, at_most

Out = Annotated[Path, typer.Option(help="Folder for the pictures; made if it is not there.")]


def experiment_lbdd(
    subscribers: Annotated[
        list[int] | None, typer.Option(help="How many subscribers; may be given more than once.")
    ] = None,
    draws: Annotated[
        int, typer.Option(callback=at_most(100_000), help="Sets of addresses that are drawn for each.")
    ] = 20,
    seed: Annotated[int, typer.Option(help="Of the addresses.")] = 0,
    out: Out = Path("out/lbdd"),
    as_json: AsJson = False,
) -> None:
    """Paper 5: the tree for its twelve computers, table 1 (depth) and figure 4 (who sends how much).

    Examples
    --------
      rayvous experiment lbdd
      rayvous experiment lbdd --subscribers 1000 --subscribers 5000 --draws 5 --json
    """
    from ...experiments import lbdd

    sizes = tuple(subscribers) if subscribers else lbdd.SIZES
    if min(sizes) < 1 or draws < 1:
        raise InputError("--subscribers and --draws must be at least 1")
    if max(sizes) > 1_000_000:
        raise InputError(f"--subscribers {max(sizes)}: a plan of more than 1,000,000 is not drawn")
    result = lbdd.run(sizes=sizes, draws=draws, seed=seed, out=folder(out))
    if as_json:
        console.print_json(result)
        return
    paper = result["paper"]
    ours = result["twelve"]
    console.print_table(
        "Twelve computers (section 4.2)",
        {
            "buckets": str(ours["buckets"]),
            "copies, depth, largest out-degree": f"{ours['copies']}, {ours['depth']}, {ours['out_degree_max']}",
            "point-to-point": _seconds("point_to_point_seconds", ours, paper),
            "LBDD": _seconds("lbdd_seconds", ours, paper),
        },
    )
    columns = {
        "subscribers": "{subscribers}",
        "depth": "{depth_mean:.1f} ({depth_min}-{depth_max})",
        "out-degree": "{inner_out_degree_mean:.2f}",
        "publisher": "{publisher_share:.1%}",
        "busiest": "{largest_subscriber_share:.1%}",
        "that send": "{sending_subscribers_share:.0%}",
    }
    console.print_columns(
        "Larger networks (table 1: depth 5 to 9, out-degree 2; figure 4: shares of all copies)",
        list(columns),
        [[text.format(**row) for text in columns.values()] for row in result["results"]],
    )
    console.out.print(f"picture: {result['picture']}")


def _seconds(name: str, ours: dict[str, Any], paper: dict[str, Any]) -> str:
    return f"{ours[name]:,.0f} s by the plan, at 100 Mbit/s; {paper[name]:,} s measured in the paper"
