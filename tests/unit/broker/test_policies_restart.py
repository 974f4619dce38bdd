"""Policies after a restart, on a real disk."""

from pathlib import Path

import pytest

from rabbitlike.broker.policies.keys import OPERATOR_POLICY, POLICY
from rabbitlike.broker.policies.policies import make_policy
from tests.support.crash_pair import DurablePair, SqliteDisk


def commit(pair: DurablePair) -> None:
    pair.journal.ask()
    assert pair.begin_commit()
    pair.end_commit()


@pytest.mark.parametrize("crash", [False, True])
def test_policies_hold_after_a_restart(tmp_path: Path, crash: bool) -> None:
    disk = SqliteDisk(tmp_path)
    pair = disk.boot()
    vhost = pair.broker.vhosts["/"]
    vhost.declare_queue("q", durable=True)
    vhost.declare_exchange("qx", "fanout", durable=True)
    vhost.policies.set(
        make_policy("/", "p", POLICY, pattern="^q", definition={"max-length": 5, "alternate-exchange": "amq.fanout"})
    )
    vhost.policies.set(make_policy("/", "gone", POLICY, pattern="^q", definition={"max-length": 1}, priority=7))
    vhost.policies.set(
        make_policy(
            "/", "op", OPERATOR_POLICY, pattern="q", definition={"max-length": 2}, priority=1.5, apply_to="queues"
        )
    )
    vhost.policies.clear(POLICY, "gone")
    vhost.policies.set(
        make_policy("/", "topics", POLICY, pattern="^amq.topic$", definition={"alternate-exchange": "x"})
    )
    shown = [policy.view() for policy in vhost.policies]
    commit(pair)

    pair = disk.boot(crash=crash)
    vhost = pair.broker.vhosts["/"]
    assert [policy.view() for policy in vhost.policies] == shown
    queue, exchange = vhost.queues["q"], vhost.exchanges["qx"]
    assert queue.policy is vhost.policies.get(POLICY, "p")
    assert queue.operator_policy is vhost.policies.get(OPERATOR_POLICY, "op")
    assert queue.settings.max_length == 2
    assert exchange.policy is queue.policy
    assert exchange.alternate == "amq.fanout"
    assert vhost.exchanges["amq.topic"].alternate == "x"
    assert vhost.exchanges["amq.direct"].policy is None
    disk.close()


def test_policies_go_with_their_vhost(tmp_path: Path) -> None:
    disk = SqliteDisk(tmp_path)
    pair = disk.boot()
    vhost = pair.broker.add_vhost("other")
    vhost.policies.set(make_policy("other", "p", POLICY, pattern="", definition={"max-length": 5}))
    commit(pair)
    pair = disk.boot()
    assert pair.broker.vhosts["other"].policies.get(POLICY, "p") is not None
    pair.broker.delete_vhost("other")
    commit(pair)
    pair = disk.boot()
    assert "other" not in pair.broker.vhosts
    assert list(pair.broker.add_vhost("other").policies) == []
    disk.close()
