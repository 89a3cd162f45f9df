"""When a replay publishes what."""

# Subject: Spark rows, Spark pipelines

from pyspark_jetstream.pipelines.pacing import Due, Pace, Window

WINDOWS = [Window(1.0, 10, 10), Window(2.0, 20, 10), Window(3.0, 35, 15), Window(60.0, 36, 1)]


def test_without_a_speed_everything_is_due_in_batches() -> None:
    pace = Pace(WINDOWS, None, 25)
    assert pace.due(0, 0.0) == Due(2, 0.0, 0.0)
    assert pace.due(2, 0.0) == Due(4, 0.0, 0.0)
    assert pace.due(4, 9.0) == Due(4, 0.0, 0.0)


def test_a_window_that_is_larger_than_a_batch_is_one_batch() -> None:
    assert Pace(WINDOWS, None, 5).due(2, 0.0).through == 3


def test_with_a_speed_a_window_is_due_when_its_time_has_come() -> None:
    pace = Pace(WINDOWS, 2.0, 1000)
    assert pace.due(0, 0.25) == Due(0, 0.25, 0.0)
    assert pace.due(0, 0.5) == Due(1, 0.0, 0.0)
    assert pace.due(3, 5.0) == Due(3, 25.0, 0.0)


def test_windows_that_are_late_are_published_together() -> None:
    assert Pace(WINDOWS, 1.0, 1000).due(0, 2.5) == Due(2, 0.0, 1.5)
    assert Pace(WINDOWS, 1.0, 10).due(0, 2.5) == Due(1, 0.0, 1.5)
