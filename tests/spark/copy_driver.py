"""A driver of its own: copies streams into others by transactions, until it is killed.

`python -m tests.spark.copy_driver`; each line of its input begins a query, as JSON: the options of
the source, those of the sink, the trigger.
"""

import json
import sys

from tests.support import spark


def main() -> None:
    """Begin the queries, and run them until the input ends."""
    session = spark.session({"spark.ui.enabled": "false"}, threads=6)
    for line in sys.stdin:
        source, sink, trigger = json.loads(line)
        rows = session.readStream.format("jetstream").options(**source).load()
        query = rows.select("data").writeStream.format("jetstream").options(**sink)
        query.trigger(**trigger).start()


if __name__ == "__main__":
    main()
