"""``rayvous sink``: write the events of a selector to files, from a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ...protocol.errors import InputError
from .. import console
from ..joined import Address, NetworkName, joined
from ..options import AsJson, Cpus, Labels, Resources, node_place

if TYPE_CHECKING:
    from ...protocol.sinks import Format, Partition


def sink(
    network: NetworkName,
    selector: Annotated[str | None, typer.Argument(help="The events that are written.")] = None,
    to: Annotated[
        str | None, typer.Option(help="Folder that every node sees, or a URL such as s3://bucket/lake.")
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the sink in its network.")] = "files",
    form: Annotated[
        str, typer.Option("--format", help="parquet, jsonl, or delta: a table of Delta Lake.")
    ] = "parquet",
    partition: Annotated[
        str | None,
        typer.Option(
            help="Folders inside, by time of publication: hour, day or none \\[hour; none with delta]."
        ),
    ] = None,
    roll_seconds: Annotated[float, typer.Option(help="Write a file when its first event is so old.")] = 60.0,
    roll_events: Annotated[int, typer.Option(help="Write a file when it has so many events.")] = 1_000_000,
    close: Annotated[
        bool, typer.Option("--close", help="End the sink; the next one of its name goes on.")
    ] = False,
    end: Annotated[bool, typer.Option("--end", help="End the sink, and cancel its subscription.")] = False,
    label: Labels = None,
    resource: Resources = None,
    num_cpus: Cpus = None,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Start a sink: an actor that writes events to files, each event exactly once, until the network ends.

    The command returns when the sink has subscribed. A sink of the same name goes on where the last one was; rayvous
    status shows sinks. With --close or --end, the sink writes what it has, and ends.

    Examples
    --------
      rayvous sink flights "origin = 'JFK'" --to /data/lake --name jfk
      rayvous sink flights "dep_delay > 60" --to s3://bucket/late --name late --format jsonl --roll-seconds 10
      rayvous sink flights "dest = 'LAX'" --to /data/lax --name lax --format delta
      rayvous sink flights "dep_delay > 60" --to /mnt/disk --label disk=large --num-cpus 1
      rayvous sink flights --name jfk --close
    """
    if close or end:
        if selector is not None or to is not None or (close and end) or label or resource or num_cpus:
            raise InputError("--close and --end take the --name of a sink, and nothing else")
        _end(network, name, end, address, as_json)
        return
    if selector is None or to is None:
        raise InputError(
            'a selector and --to are needed: rayvous sink flights "dep_delay > 60" --to /data/lake'
        )
    from ...routing.language.questions import doubts_to_tell, to_filter

    to_filter(selector)  # validate before connecting to Ray
    place = node_place(label, resource, num_cpus)
    chosen: Format = form  # type: ignore[assignment]  # checked by the network, as the other options
    folders: Partition | None = partition  # type: ignore[assignment]
    with joined(network, address) as net:
        made = net.sink(
            to, selector, name=name, format=chosen, partition=folders, roll_seconds=roll_seconds,
            roll_events=roll_events, place=place,
        )  # fmt: skip
    for doubt in doubts_to_tell(selector):
        console.err.print(f"doubtful: {doubt}", markup=False, soft_wrap=True)
    if as_json:
        console.print_json({"network": network, "sink": made.name, "target": made.target})
    else:
        console.out.print(f"sink {made.name}: writes to {made.target}", markup=False, soft_wrap=True)


def _end(network: str, name: str, for_good: bool, address: str | None, as_json: bool) -> None:
    from ...actors.network.sinks import running_sink

    with joined(network, address) as net:
        found = running_sink(net.name, name)
        if for_good:
            found.end()
        else:
            found.close()
    if as_json:
        console.print_json({"network": network, "sink": name, "ended": True})
    else:
        console.out.print(f"ended: {name}", markup=False)
