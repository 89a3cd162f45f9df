"""Other releases of PySpark, by hand: `python -m tests.spark.versions 4.0 4.1 --connect 4.0`.

Each is installed into an environment of its own, which takes minutes and a gigabyte, and reads and
writes streams of a server of its own by `smoke.py`. Prints what each release did.
"""

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tests.spark.feeds import Feed, dsn_of
from tests.support import spark
from tests.support.jetgate import JetgateServer

PACKAGES = (
    "pyarrow>=18",
    "adbc-driver-postgresql>=1.5",
    "adbc-driver-manager",
    "pandas>=2.2,<3",
    "crc32c",
)
EVERYWHERE = (
    "batch",
    "batch over NATS",
    "streaming",
    "write at-least-once",
    "write transactional",
    "writeStream at-least-once",
    "writeStream transactional",
)
"""What every release does with the stream's three messages."""


def main() -> int:
    """Run the chosen releases; return 1 when one does not read and write all messages."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.versions", description=__doc__)
    parser.add_argument("releases", nargs="*", help="such as 4.0")
    parser.add_argument("--connect", action="append", default=[], help="the same by Spark Connect")
    chosen = parser.parse_args()
    wrong = 0
    with JetgateServer(in_memory=True) as server:
        feed = Feed(server)
        feed.create()
        feed.put("a", "b", "a")
        feed.close()  # installing takes longer than a server waits for the answer to its PING
        for release, how in [
            *((one, "local[2]") for one in chosen.releases),
            *((one, "remote") for one in chosen.connect),
        ]:
            target = Feed(server)
            target.create()
            target.close()
            url = "nats://{}:{}".format(*server.address)
            printed = _run(release, how, dsn_of(server), feed.name, url, target.name)
            print(f"{release} {how}:\n{printed}", flush=True)
            wrong += any(f'"{name}": 3' not in printed for name in EVERYWHERE)
    return min(wrong, 1)


def _run(release: str, how: str, *given: str) -> str:
    """What the smoke test printed, given what it is given behind HOW."""
    with tempfile.TemporaryDirectory() as place:
        venv.create(place, with_pip=True)
        python = str(Path(place) / "bin/python")
        extra = "[connect]" if how == "remote" else ""
        install = [python, "-m", "pip", "install", "-q", f"pyspark{extra}=={release}.*", *PACKAGES]
        subprocess.run(install, check=True)
        environment = {
            **spark.environment(),
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
            "PYTHONPATH": str(spark.ROOT / "spark"),
        }
        del environment["SPARK_HOME"]  # of the PySpark that runs this; each finds its own
        script = str(Path(__file__).with_name("smoke.py"))
        done = subprocess.run(
            [python, script, how, *given],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip() if done.returncode == 0 else done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main())
