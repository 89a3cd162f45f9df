"""What counts as lost by the database, and where streams go on."""

# Subject: storage, storage faults

from core.storage.acknowledged import Acknowledged, AcknowledgedStream, LostData
from core.storage.interface import Head, StreamRow
from core.units import Epoch

S = ("$G", "S", 7)
LATER = Head(epoch=Epoch(9), first_seq=0, last_seq=20, last_ts=0, msgs=0, bytes=0)
"""The head of a directory that has not gone back."""
EARLIER = Head(epoch=Epoch(5), first_seq=0, last_seq=20, last_ts=0, msgs=0, bytes=0)

BEFORE = Head(epoch=Epoch(4), first_seq=0, last_seq=20, last_ts=0, msgs=0, bytes=0)
"""The head of one that has."""
THERE = {("$G", "S"), ("$G", "OLD")}
"""The names of the streams that there are."""


def remembered(known: AcknowledgedStream) -> Acknowledged:
    found = Acknowledged()
    found.remember(Epoch(5), 20, {S: known})
    return found


def row(last: int, created: int = 7) -> StreamRow:
    return StreamRow(1, "$G", "S", 0, created, "{}", Head(Epoch(6), 1, last, 0, last, 0))


def test_nothing_is_lost_where_everything_is_there_or_more() -> None:
    assert remembered(AcknowledgedStream(1, 50)).losses(LATER, [row(50)], THERE) == []
    assert remembered(AcknowledgedStream(1, 50)).losses(EARLIER, [row(60)], THERE) == []
    assert Acknowledged().losses(LATER, [row(50)], THERE) == []


def test_unacknowledged_publishes_are_no_loss_and_their_sequences_are_not_reused() -> None:
    doubted = remembered(AcknowledgedStream(1, 50, doubtful=55))

    assert doubted.losses(LATER, [row(50)], THERE) == []
    [loss] = doubted.losses(LATER, [row(40)], THERE)
    assert (loss.sequences, loss.stream, loss.through) == (10, 1, 55)
    assert loss.text == "the database lost sequences 41..50 of stream S; it goes on with 56"


def test_a_mirror_is_given_the_same_messages_again() -> None:
    [loss] = remembered(AcknowledgedStream(1, 50, mirrors=True)).losses(LATER, [row(49)], THERE)

    text = "the database lost sequence 50 of stream S; the mirror copies them again"
    assert loss == LostData(S, text, 1, 1, 0)


def test_a_stream_that_is_gone_is_lost_only_if_the_directory_went_back() -> None:
    known = remembered(AcknowledgedStream(3, 50))

    assert known.losses(LATER, [], ()) == []  # another node led, and deleted it
    [loss] = known.losses(BEFORE, [], ())
    assert loss == LostData(S, "the database lost stream S with sequences 3..50", 48)
    [loss] = remembered(AcknowledgedStream(1, 0)).losses(BEFORE, [], ())
    assert loss == LostData(S, "the database lost stream S which was empty", 0)


def test_changes_of_consumers_are_reported_beside_messages() -> None:
    known = remembered(AcknowledgedStream(1, 50, consumer_changes=5))
    later = StreamRow(1, "$G", "S", 0, 7, "{}", Head(Epoch(6), 1, 50, 0, 50, 0), consumer_changes=6)

    assert known.losses(LATER, [later], THERE) == []
    found = known.losses(LATER, [row(40)], THERE)
    text = "the database lost 5 changes of consumers of stream S"
    assert found[0] == LostData(S, text)
    assert [(loss.stream, loss.through, known.count(loss)) for loss in found] == [
        (0, 0, True),
        (1, 50, True),
    ]


def test_losses_are_counted_once_however_often_loading_fails() -> None:
    known = remembered(AcknowledgedStream(1, 50))
    known.deleted(("$G", "OLD", 1), AcknowledgedStream(1, 4))
    back = StreamRow(2, "$G", "OLD", 0, 1, "{}", Head(Epoch(6), 1, 3, 0, 3, 0))
    losses = known.losses(EARLIER, [row(40), back], THERE)
    assert [(loss.stream, loss.through) for loss in losses] == [(1, 50), (2, 4)]

    assert [known.count(loss) for loss in losses] == [True, True]
    assert [known.count(loss) for loss in losses] == [False, False]

    assert known.lost == 10
    known.remember(
        Epoch(6), 20, {S: AcknowledgedStream(1, 60), ("$G", "OLD", 1): AcknowledgedStream(1, 4)}
    )
    assert known.losses(LATER, [row(60), back], THERE)[0].text.startswith(
        "the database lost sequence 4 "
    )
    assert all(known.count(loss) for loss in known.losses(LATER, [row(40)], THERE))
    assert known.lost == 30


def test_of_many_deleted_streams_the_oldest_are_forgotten() -> None:
    known = Acknowledged()
    for number in range(1025):
        known.deleted(("$G", "S", number), AcknowledgedStream(1, 4))

    assert known.losses(LATER, [row(4, created=0)], THERE) == []
    assert len(known.losses(LATER, [row(4, created=1)], THERE)) == 1
