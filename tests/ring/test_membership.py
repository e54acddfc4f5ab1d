"""Managers, claims and the lead in a real ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kazoo.protocol.states import KeeperState
from test_zookeeper import wait_for

from vms.errors import Conflict
from vms.ring.membership import SINGLE, ManagerInfo, Membership
from vms.ring.session import Session, State

Sessions = Callable[..., Session]


def joined(session: Session, id_: str) -> Membership:
    membership = Membership(session)
    membership.join(ManagerInfo(id_, f"127.0.0.1:{len(id_)}", log="log1"))
    return membership


def expire(session: Session) -> None:
    """What a pause of the process longer than the session does to it: ZooKeeper forgets the session."""
    from kazoo.client import KazooClient

    other = KazooClient(session.hosts, client_id=session.client.client_id)
    before = session.incarnation
    other.start()
    other.stop()
    other.close()
    wait_for(session, lambda: session.incarnation > before and session.state is State.CONNECTED)
    assert session.client.client_state is KeeperState.CONNECTED


def test_managers_see_each_other_and_what_they_host(session: Sessions) -> None:
    one, two = joined(session(), "one"), joined(session(), "two")
    wait_for(one.session, lambda: set(one.managers()) == {"one", "two"})
    assert one.claim("m1", "log1")
    assert one.info is not None
    one.update(ManagerInfo("one", "127.0.0.1:3", log="log1", members=("m1",)))
    wait_for(two.session, lambda: two.managers()["one"].members == ("m1",))
    assert (two.claims(), two.members()) == ({"m1": "one"}, {"m1": "log1"})


def test_a_member_has_one_home(session: Sessions) -> None:
    one, two = joined(session(), "one"), joined(session(), "two")
    assert one.claim("m1", "log1")
    assert not two.claim("m1", "log1")
    one.release("m1")
    assert two.claim("m1", "log1")
    wait_for(one.session, lambda: one.claims() == {"m1": "two"})


def test_when_a_manager_dies_its_claims_are_free_and_another_leads(session: Sessions) -> None:
    one, two = joined(session(), "one"), joined(session(), "two")
    assert one.leads()
    assert not two.leads()
    one.claim("m1", "log1")
    wait_for(two.session, lambda: two.claims() == {"m1": "one"})
    one.session.close()
    wait_for(two.session, lambda: two.claims() == {} and set(two.managers()) == {"two"})
    wait_for(two.session, two.leads)
    assert two.leader() == "two"
    assert two.members() == {"m1": "log1"}


def test_a_lost_session_is_an_explicit_state_and_the_manager_begins_anew(session: Sessions) -> None:
    one, two = joined(session(), "one"), joined(session(), "two")
    one.claim("m1", "log1")
    expire(one.session)
    assert one.session.incarnation == 1
    wait_for(one.session, lambda: not one.leads())
    wait_for(two.session, lambda: two.leads() and two.claims() == {})
    assert two.claim("m1", "log1")
    assert one.info is not None
    one.join(one.info)
    assert not one.claim("m1", "log1")
    assert not one.leads()


def test_two_managers_of_one_name_are_told_apart(session: Sessions) -> None:
    joined(session(), "one")
    with pytest.raises(Conflict, match="another --id"):
        joined(session(), "one")


def test_nobody_is_beside_a_process_for_itself(session: Sessions) -> None:
    single = joined(session(), SINGLE)
    two = session()
    with pytest.raises(Conflict, match=r"manage=True .* close it there, then start two"):
        joined(two, "two")
    assert set(single.managers()) == {SINGLE}
    single.leave()
    wait_for(two, lambda: not Membership(two).managers())
    two_joined = joined(two, "two")
    with pytest.raises(Conflict, match=r"View Managers run already \(two\)"):
        joined(session(), SINGLE)
    assert set(two_joined.managers()) == {"two"}
