"""The table of docs/performance.md says what the kept results say."""

# Subject: documents

import json

from bench.table import PAGE, RESULTS, render, rewrite


def test_the_page_shows_the_latest_results() -> None:
    page = PAGE.read_text()

    assert rewrite(page, render(json.loads(RESULTS.read_text()))) == page


def test_a_row_shows_each_peer_and_what_its_floors_ask() -> None:
    row = {
        "unit": "rate",
        "peers": {"nats": {"rate": 200_000.0}, "jetgate": {"rate": 300_000.0, "p50": 1500.0}},
        "floors": {
            "nats": {"value": 1.5, "floor": 0.5, "ok": True},
            "p50": {"value": 1500.0, "floor": 50_000, "ok": True},
        },
    }

    table = render({"machine": "m", "runs": 1, "rows": {"a row": row}})

    line = "| a row | 200,000 |  | 300,000, p50 1.5 ms | 1.50 (0.5); p50 (50.0 ms) |"
    assert line in table.splitlines()
