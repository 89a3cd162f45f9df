"""A driver of its own: copies streams into others by transactions, until it is killed.

`python -m tests.spark.copy_driver`; each line of its input begins a query, as JSON: the options of
the source, those of the sink, the trigger.
"""

import json
import sys
import threading
from typing import TYPE_CHECKING

from tests.support import spark

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def main() -> None:
    """Begin the queries, and run them until the input ends."""
    session = spark.session({"spark.ui.enabled": "false"}, threads=6)
    for line in sys.stdin:
        source, sink, trigger = json.loads(line)
        rows = session.readStream.format("jetstream").options(**source).load()
        query = rows.select("data").writeStream.format("jetstream").options(**sink)
        started = query.trigger(**trigger).start()
        threading.Thread(target=report, args=(started,), daemon=True).start()


def report(query: "StreamingQuery") -> None:
    """Print why a query fails."""
    try:
        query.awaitTermination()
    except Exception as error:
        print(f"\nfailed: {error}", flush=True)


if __name__ == "__main__":
    main()
