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
    """Paper 5: its twelve computers (delay, figures 2 and 3), table 1 (depth) and figure 4 (who sends how much).

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
        },
    )
    console.print_columns(
        f"8 GB to eleven: delay, rate, publisher's link (paper: {paper['point_to_point_seconds']:,} s; "
        f"{paper['lbdd_seconds']:,} s, {paper['lbdd_megabits_per_second']} Mbit/s, below 70%)",
        ["links", "point-to-point", "", "", "LBDD", "", ""],
        [
            [f"{link['megabits_per_second']:,.0f} Mbit/s", *_way(link["point_to_point"]), *_way(link["lbdd"])]
            for link in ours["links"]
        ],
    )
    console.print_columns(
        "The same at 100 Mbit/s for fewer subscribers (figures 2 and 3)",
        ["subscribers", "point-to-point", "", "", "LBDD", "", ""],
        [
            [str(step["subscribers"]), *_way(step["point_to_point"]), *_way(step["lbdd"])]
            for step in ours["subscribers"]
        ],
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
    console.out.print(f"pictures: {result['twelve_picture']}, {result['picture']}")


def _way(done: dict[str, Any]) -> list[str]:
    return [
        f"{done['seconds']:,.0f} s",
        f"{done['megabits_per_second']:,.1f} Mbit/s",
        f"{done['publisher_utilisation']:.0%}",
    ]
