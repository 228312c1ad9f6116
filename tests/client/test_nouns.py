"""The public value types: ids, collections of topics, partitions, clusters, descriptions, results."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import warnings
from typing import Any

import pytest

import pybroker.client
from pybroker.client import (
    Cluster,
    ConsumerRecord,
    Node,
    PartitionInfo,
    ProducerRecord,
    TopicCollection,
    TopicDescription,
    TopicIdPartition,
    TopicMetadataAndConfig,
    TopicPartition,
    TopicPartitionInfo,
    Uuid,
)
from pybroker.client.admin.admin_results import (
    CreateTopicsResult,
    DeleteTopicsResult,
    DescribeTopicsResult,
    Futures,
    settle,
    start,
)
from pybroker.client.client_errors import KafkaError
from pybroker.client.cluster_metadata import TopicInfo

ID, OTHER = Uuid.parse("b8tRS7h4TJ2Vt43Dp85v2A"), Uuid.parse("vPeOCWypqUOSepEvx0cbog")
B_ID = Uuid.parse("Rr22P56NSji_e-5OsqeU5A")


@pytest.mark.checklist(13, 14, 27, "X24")
def test_the_id_of_the_client_is_the_products_and_holds_any_bits() -> None:
    assert pybroker.client.Uuid is Uuid
    assert Uuid(1, 2).most_significant_bits == 1  # no version, no variant
    with pytest.raises(AttributeError):
        ID.most_significant_bits = 1  # type: ignore[misc]  # frozen: must raise


@pytest.mark.checklist(146)
def test_a_topic_collection_is_made_by_its_two_functions_only() -> None:
    with pytest.raises(TypeError, match="of_topic_ids"):
        TopicCollection()
    with pytest.raises(TypeError, match="of_topic_ids"):
        type(TopicCollection.of_topic_names([]))(topics=["a"])
    with pytest.raises(TypeError, match="subclassed"):
        type("Mine", (TopicCollection,), {"__module__": "mine"})


@pytest.mark.checklist(147, 148, 149, 150)
def test_a_topic_collection_holds_ids_or_names() -> None:
    ids = TopicCollection.of_topic_ids([ID, OTHER])
    names = TopicCollection.of_topic_names({"a"})
    assert list(ids.topic_ids()) == [ID, OTHER]
    assert list(names.topic_names()) == ["a"]
    assert not hasattr(ids, "topic_names")
    assert not hasattr(names, "topic_ids")
    with pytest.raises(TypeError, match="expected Uuid"):
        TopicCollection.of_topic_ids([str(ID)])  # type: ignore[list-item]  # the wrong type: must raise
    with pytest.raises(TypeError, match="expected str"):
        TopicCollection.of_topic_names([ID])  # type: ignore[list-item]  # the wrong type: must raise
    with pytest.raises(TypeError, match="got the string"):
        TopicCollection.of_topic_names("abc")


@pytest.mark.checklist(219, 250, "D30")
def test_a_partition_with_an_id_is_another_type() -> None:
    plain = TopicPartition("a", 3)
    full = TopicIdPartition(ID, plain)
    assert TopicPartition._fields == ("topic", "partition")
    assert (full.topic_id, full.topic, full.partition, full.topic_partition) == (ID, "a", 3, plain)
    assert full != TopicIdPartition(OTHER, plain)
    assert len({full, TopicIdPartition(ID, plain)}) == 1
    assert str(full) == "b8tRS7h4TJ2Vt43Dp85v2A:a-3"


@pytest.mark.checklist(28, 29, 284)
def test_a_cluster_knows_ids_and_names() -> None:
    node = Node(1, "here", 9092)
    partition = PartitionInfo("a", 0, 1, 5, (1,), (1,), ())
    cluster = Cluster(
        "cluster",
        (node,),
        node,
        {
            "a": TopicInfo("a", ID, False, (partition,)),
            "b": TopicInfo("b", B_ID, False, ()),
            "old": TopicInfo("old", Uuid.ZERO, True, ()),
            "gone": TopicInfo("gone", OTHER, False, (), 3),
        },
    )
    assert cluster.id == "cluster"
    assert set(cluster.topics()) == {"a", "b", "old"}
    assert sorted(cluster.topic_ids()) == sorted([ID, B_ID])
    assert [cluster.topic_id(name) for name in ("a", "old", "gone", "never")] == [ID, *[Uuid.ZERO] * 3]
    assert (cluster.topic_name(ID), cluster.topic_name(OTHER)) == ("a", None)
    assert cluster.leader(TopicPartition("a", 0)) == node
    assert cluster.leader(TopicPartition("a", 1)) is None
    assert cluster.internal_topics() == {"old"}
    assert cluster.controller == node


@pytest.mark.checklist(152, 153, 157, 158)
def test_descriptions_carry_the_id() -> None:
    partition = TopicPartitionInfo(0, None, (), ())
    description = TopicDescription("a", False, (partition,), frozenset({3}), ID)
    assert (description.name, description.internal, description.partitions) == ("a", False, (partition,))
    assert (description.authorized_operations, description.topic_id) == (frozenset({3}), ID)
    assert TopicMetadataAndConfig(ID, 3, 1, {}).topic_id == ID


def _futures(**outcomes: object) -> Futures[str, object]:
    async def work(futures: Futures[str, object]) -> None:
        for key, outcome in outcomes.items():
            settle(futures[key], outcome if isinstance(outcome, int) else 0, None, outcome, key)

    return start(outcomes, work)


@pytest.mark.checklist(151, 156)
async def test_create_topics_gives_ids_of_created_topics_only() -> None:
    made = TopicMetadataAndConfig(ID, 2, 1, {})
    result = CreateTopicsResult(_futures(a=made, b=36))  # type: ignore[arg-type]  # futures of the test's own
    assert await result.topic_id("a") == ID
    assert (await result.num_partitions("a"), await result.replication_factor("a")) == (2, 1)
    with pytest.raises(KafkaError):
        await result.topic_id("b")
    with pytest.raises(KafkaError):
        await result


@pytest.mark.checklist(170, 171, 172, 173, 174, 175, 176, "X23", "D29")
async def test_describe_results_are_by_what_was_asked() -> None:
    description = TopicDescription("a", False, (), None, ID)
    by_name = DescribeTopicsResult.of_topic_names(_futures(a=description))  # type: ignore[arg-type]  # futures of the test's own
    assert by_name.topic_id_values() is None
    assert list(by_name.topic_name_values() or ()) == ["a"]
    assert await by_name.all_topic_names() == {"a": description}
    with pytest.raises(ValueError, match="names"):
        await by_name.all_topic_ids()
    with pytest.warns(DeprecationWarning, match="topic_name_values"):
        assert list(by_name.values() or ()) == ["a"]
    with pytest.warns(DeprecationWarning, match="all_topic_names"):
        assert await by_name.all() == {"a": description}

    future = asyncio.get_running_loop().create_future()
    future.set_result(description)
    by_id = DescribeTopicsResult.of_topic_ids({ID: future})
    assert by_id.topic_name_values() is None
    assert await by_id.all_topic_ids() == {ID: description}
    with pytest.warns(DeprecationWarning, match="topic_name_values"):
        assert by_id.values() is None
    with pytest.raises(ValueError, match="ids"):
        await by_id.all_topic_names()


@pytest.mark.checklist(178, 179, 180, 181)
async def test_delete_results_are_by_what_was_asked_and_all_needs_all() -> None:
    result = DeleteTopicsResult.of_topic_names(_futures(a=None, b=3))  # type: ignore[arg-type]  # futures of the test's own
    values = result.topic_name_values()
    assert values is not None
    await values["a"]
    assert result.topic_id_values() is None
    with pytest.warns(DeprecationWarning, match="topic_name_values"):
        assert result.values() is not None
    with pytest.raises(KafkaError):
        await result.all()
    good = DeleteTopicsResult.of_topic_names(_futures(a=None))  # type: ignore[arg-type]  # futures of the test's own
    await good.all()


# KIP-516, Public Interfaces: "protected DescribeTopicsResult(Map<Uuid, …> topicIdFutures, Map<String, …> nameFutures)".
@pytest.mark.checklist(322)
@pytest.mark.parametrize("result", [DescribeTopicsResult, DeleteTopicsResult])
async def test_results_are_made_by_their_two_factories(result: Any) -> None:
    future = asyncio.get_running_loop().create_future()
    with pytest.raises(TypeError, match="of_topic_ids"):
        result({ID: future}, None)
    assert result.of_topic_ids({ID: future}).topic_id_values() == {ID: future}
    assert result.of_topic_ids({ID: future}).topic_name_values() is None
    assert result.of_topic_names({"a": future}).topic_name_values() == {"a": future}
    assert result.of_topic_names({"a": future}).topic_id_values() is None

    class Double(result):  # type: ignore[misc]  # protected: a child may call it
        pass

    assert Double(None, {"a": future}).topic_name_values() == {"a": future}
    assert Double({}, None).topic_id_values() == {}
    none: Futures[Any, Any] = {}
    for both in (None, none):
        with pytest.raises(ValueError, match="either by id or by name"):
            Double(both, both)


# KIP-516: "@Deprecated public Map<String, KafkaFuture<…>> values()", of both results, and of the first also `all`.
@pytest.mark.checklist(323)
async def test_old_methods_by_name_warn_and_work() -> None:
    description = TopicDescription("a", False, (), None, ID)
    described = DescribeTopicsResult.of_topic_names(_futures(a=description))  # type: ignore[arg-type]  # as above
    deleted = DeleteTopicsResult.of_topic_names(_futures(a=None))  # type: ignore[arg-type]  # as above
    for result in (described, deleted):
        with pytest.warns(DeprecationWarning, match=r"values\(\) is deprecated; use topic_name_values\(\)"):
            assert result.values() == result.topic_name_values()
        assert "Deprecated" in (result.values.__doc__ or "")
    with pytest.warns(DeprecationWarning, match=r"all\(\) is deprecated; use all_topic_names\(\)"):
        assert await described.all() == {"a": description}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        await deleted.all()  # this method is not deprecated


@pytest.mark.checklist(301)
def test_records_know_no_cluster_id() -> None:
    assert not [name for name in (*dir(ProducerRecord), *dir(ConsumerRecord)) if "cluster" in name]


def test_importing_the_package_does_not_pay_for_the_client() -> None:
    code = (
        "import sys, pybroker, pybroker.client, pybroker.__main__\n"
        "loaded = [name for name in sys.modules if name.startswith('pybroker.client.')]\n"
        "sys.exit(str(loaded) if loaded else 0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert all(getattr(pybroker.client, name) for name in pybroker.client.__all__)
