"""Publishers that wait for a commit are all let on in the end, however many there are."""

from rabbitlike.broker.credit import BROKER_BYTES, READ_BYTES, Credit
from rabbitlike.broker.journal import Journal


class Quiet:
    """A publisher that has nothing to publish once it may go on."""

    def __init__(self) -> None:
        self.is_resumed = False

    def resume_publishing(self) -> None:
        self.is_resumed = True


def test_more_publishers_than_one_commit_has_room_for() -> None:
    asked: list[None] = []
    journal = Journal(lambda: asked.append(None))
    credit = Credit(journal)
    publishers = [Quiet() for _ in range(2 * BROKER_BYTES // READ_BYTES + 1)]
    for publisher in publishers:
        credit.wait(publisher)
    credit.committed()
    assert sum(publisher.is_resumed for publisher in publishers) == BROKER_BYTES // READ_BYTES
    while asked:
        asked.clear()
        credit.committed()
    assert all(publisher.is_resumed for publisher in publishers)
