"""Which tests stay in one process where several processes run them."""

from pathlib import Path

from xdist.scheduler import LoadFileScheduling


class OneSpark(LoadFileScheduling):
    """Gives a file to one process, and the folder whose tests share a Spark session as if it were one file."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "on_spark" if "on_spark" in Path(file).parts else file
