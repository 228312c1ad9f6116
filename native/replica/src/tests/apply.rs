use super::*;

fn dirs(count: usize) -> (tempfile::TempDir, Vec<PathBuf>) {
    let root = tempfile::tempdir().expect("temp dir");
    let dirs = (0..count)
        .map(|number| root.path().join(format!("disk{number}")))
        .collect();
    (root, dirs)
}

fn restart(host: Host, dirs: &[PathBuf]) -> Host {
    host.replicas.shutdown(WAIT).expect("closes");
    drop(host);
    super::host(dirs)
}

#[test]
fn a_restart_finds_what_was_there() {
    let (_root, dirs) = dirs(1);
    let first = host(&dirs);
    let order = order(TopicId::random(), 0, 0);
    let partition = lead(&first, &order);
    let info = append(&partition, &["a"]).expect("appends");
    wait(partition.committed(&info)).expect("commits");
    drop(partition);
    let second = restart(first, &dirs);
    assert_eq!(
        second.replicas.snapshot().topics().len(),
        0,
        "nothing is hosted before an order"
    );
    let again = PartitionOrder {
        leader_epoch: 1,
        is_new: false,
        ..order
    };
    let partition = lead(&second, &again);
    assert_eq!(
        (partition.high_watermark(), partition.log_end_offset()),
        (1, 1)
    );
    assert!(
        second.reports.lock().is_empty(),
        "{:?}",
        second.reports.lock()
    );
}

#[test]
fn after_a_crash_the_high_watermark_starts_where_clients_have_been() {
    let (_root, dirs) = dirs(1);
    let first = host(&dirs);
    let order = order(TopicId::random(), 0, 0);
    let partition = lead(&first, &order);
    let info = append(&partition, &["a"]).expect("appends");
    wait(partition.committed(&info)).expect("commits");
    drop(partition);
    drop(first); // dropped without a shutdown, so there is no marker
    let second = host(&dirs);
    let partition = lead(
        &second,
        &PartitionOrder {
            is_new: false,
            ..order
        },
    );
    assert_eq!(partition.high_watermark(), 1);
}

// checklist: R7
#[test]
fn many_partitions_spread_over_the_disks() {
    let (_root, dirs) = dirs(3);
    let host = host(&dirs);
    let topic = TopicId::random();
    let orders: Vec<_> = (0..30)
        .map(|partition| order(topic, partition, 0))
        .collect();
    assert!(host.replicas.apply(&orders, 0).iter().all(Result::is_ok));
    for at in 0..3 {
        assert_eq!(host.replicas.partitions_of(at).len(), 10);
    }
    let again = host.replicas.apply(&orders, 0);
    assert!(
        again.iter().all(Result::is_ok),
        "the same order again changes nothing"
    );
    let host = restart(host, &dirs);
    assert!(host.replicas.apply(&orders, 0).iter().all(Result::is_ok));
    assert_eq!(host.replicas.snapshot().partitions().count(), 30);
    assert_eq!(
        host.replicas.partitions_of(1).len(),
        10,
        "each was found on its disk"
    );
}

#[test]
fn orders_that_are_refused() {
    let (_root, dirs) = dirs(1);
    let host = host(&dirs);
    let good = order(TopicId::random(), 0, 5);
    let bad_index = order(good.tip.topic_id, -1, 0);
    let huge_index = order(good.tip.topic_id, i32::MAX, 0);
    let results = host
        .replicas
        .apply(&[good.clone(), bad_index, huge_index, good.clone()], 0);
    assert_eq!(results[0], Ok(()));
    assert!(
        results[1..]
            .iter()
            .all(|result| matches!(result, Err(PartitionError::Invalid(_)))),
        "{results:?}"
    );
    let older = PartitionOrder {
        leader_epoch: 4,
        ..good.clone()
    };
    assert_eq!(
        host.replicas.apply(&[older], 0),
        [Err(PartitionError::FencedLeaderEpoch {
            requested: 4,
            current: 5
        })]
    );
    let late = StopOrder {
        leader_epoch: 4,
        ..stop(&good, true)
    };
    assert!(matches!(
        host.replicas.stop(&[late], 0)[..],
        [Err(PartitionError::FencedLeaderEpoch { .. })]
    ));
    assert!(host.replicas.partition(good.tip).is_some());
}

#[test]
fn a_successor_needs_a_higher_epoch_than_every_older_incarnation() {
    let (_root, dirs) = dirs(2);
    let first = host(&dirs);
    let old = order(TopicId::random(), 0, 4);
    let partition = lead(&first, &old);
    let equal = order(TopicId::random(), 0, 4);
    assert_eq!(
        first.replicas.apply(std::slice::from_ref(&equal), 0),
        [Err(PartitionError::InconsistentTopicId)]
    );
    assert!(append(&partition, &["untouched"]).is_ok());
    let new = order(TopicId::random(), 0, 5);
    lead(&first, &new);
    assert_eq!(
        append(&partition, &["late"]),
        Err(PartitionError::Deleted),
        "never in either incarnation"
    );
    drop(partition);
    assert_eq!(first.replicas.topic_id("t"), Some(new.tip.topic_id));
    assert_eq!(first.replicas.staged().expect("lists").len(), 1);
    // The older incarnation is on disk but not hosted, and its log has the latest epoch.
    let second = restart(first, &dirs);
    assert_eq!(
        second.replicas.apply(&[order(TopicId::random(), 0, 5)], 0),
        [Err(PartitionError::InconsistentTopicId)]
    );
    lead(&second, &order(TopicId::random(), 0, 6));
    assert_eq!(second.replicas.staged().expect("lists").len(), 2);
}

/// A producer that does not notice that its topic was replaced continues its sequence. The test covers each way in
/// which one incarnation follows another.
#[test]
fn a_running_idempotent_producer_goes_on_in_the_next_incarnation() {
    let (_root, dirs) = dirs(1);
    let host = host(&dirs);
    let first = order(TopicId::random(), 0, 0);
    let partition = lead(&host, &first);
    append_from(&partition, 0).expect("the first sequence");
    append_from(&partition, 1).expect("the second");
    assert_eq!(host.replicas.stop(&[stop(&first, true)], 0), [Ok(())]);
    let deleted_first = lead(&host, &order(TopicId::random(), 0, 1));
    assert!(append_from(&deleted_first, 5).is_err(), "a gap");
    let info = append_from(&deleted_first, 2).expect("goes on");
    assert_eq!(info.base_offset, 0);
    let replaced = lead(&host, &order(TopicId::random(), 0, 2));
    append_from(&replaced, 3).expect("goes on");
    let other = PartitionOrder {
        topic: Arc::from("other"),
        ..order(TopicId::random(), 0, 0)
    };
    let unrelated = lead(&host, &other);
    append_from(&unrelated, 7).expect("an unknown producer begins with any sequence");
}

#[test]
fn a_stopped_partition_can_be_hosted_again_and_a_deleted_one_is_staged_and_purged() {
    let (_root, dirs) = dirs(1);
    let host = host(&dirs);
    let order = order(TopicId::random(), 0, 0);
    let partition = lead(&host, &order);
    let info = append(&partition, &["a"]).expect("appends");
    wait(partition.committed(&info)).expect("commits");
    assert_eq!(host.replicas.stop(&[stop(&order, false)], 0), [Ok(())]);
    assert!(host.replicas.partition(order.tip).is_none());
    assert_eq!(append(&partition, &["b"]), Err(PartitionError::NotLeader));
    let again = lead(&host, &order);
    assert_eq!(again.high_watermark(), 1);
    assert_eq!(host.replicas.stop(&[stop(&order, false)], 0), [Ok(())]);
    assert_eq!(
        host.replicas.stop(&[stop(&order, true)], 7),
        [Ok(())],
        "not hosted, but on disk"
    );
    let staged = host.replicas.staged().expect("lists");
    let [(_, staged)] = &staged[..] else {
        panic!("{staged:?}")
    };
    assert_eq!(
        (staged.id, staged.deadline_ms),
        (Some(order.tip), Some(1_007))
    );
    assert!(host.replicas.purge(&dirs[0].join("t-0")).is_err());
    assert!(host.replicas.purge(&staged.path).is_ok());
    assert_eq!(
        host.replicas.stop(&[stop(&order, true)], 0),
        [Ok(())],
        "gone already"
    );
}

#[test]
fn many_partitions_are_deleted_at_once_and_one_that_is_named_twice_is_gone_all_the_same() {
    let (_root, dirs) = dirs(2);
    let host = host(&dirs);
    let topic = TopicId::random();
    let orders: Vec<_> = (0..20)
        .map(|partition| order(topic, partition, 0))
        .collect();
    assert!(host.replicas.apply(&orders, 0).iter().all(Result::is_ok));
    let mut stops: Vec<_> = orders.iter().map(|order| stop(order, true)).collect();
    stops.push(stop(&orders[0], true));
    assert!(host.replicas.stop(&stops, 7).iter().all(Result::is_ok));
    let staged = host.replicas.staged().expect("lists");
    assert_eq!(staged.len(), 20);
    assert!(
        staged
            .iter()
            .all(|(_, one)| one.id.is_some() && one.deadline_ms == Some(1_007))
    );
    let next = TopicId::random();
    let successors: Vec<_> = (0..20).map(|partition| order(next, partition, 1)).collect();
    assert!(
        host.replicas
            .apply(&successors, 0)
            .iter()
            .all(Result::is_ok)
    );
}

#[test]
fn a_partition_that_cannot_be_opened_is_offline_and_others_go_on() {
    let (_root, dirs) = dirs(1);
    let first = host(&dirs);
    let topic = TopicId::random();
    let orders = [order(topic, 0, 0), order(topic, 1, 0)];
    assert!(first.replicas.apply(&orders, 0).iter().all(Result::is_ok));
    first.replicas.shutdown(WAIT).expect("closes");
    drop(first);
    // Put a directory where a segment is expected, which cannot be read as a file.
    std::fs::create_dir(dirs[0].join("t-0/00000000000000000000.log")).expect("makes");
    let second = host(&dirs);
    let results = second.replicas.apply(&orders, 0);
    assert!(
        matches!(results[0], Err(PartitionError::Storage(_))),
        "{results:?}"
    );
    assert_eq!(results[1], Ok(()));
    let offline = second
        .replicas
        .partition(orders[0].tip)
        .expect("hosted, offline");
    assert!(matches!(
        append(&offline, &["a"]),
        Err(PartitionError::Storage(_))
    ));
    assert!(matches!(
        offline.read(&fetch(0)),
        Err(PartitionError::Storage(_))
    ));
    std::fs::remove_dir(dirs[0].join("t-0/00000000000000000000.log")).expect("mended");
    let mended = lead(&second, &orders[0]);
    assert!(append(&mended, &["a"]).is_ok());
}

#[test]
fn the_same_partition_on_two_disks_is_served_once_and_nothing_is_deleted() {
    let (_root, dirs) = dirs(2);
    let first = host(&dirs);
    let order = order(TopicId::random(), 0, 0);
    lead(&first, &order);
    first.replicas.shutdown(WAIT).expect("closes");
    drop(first);
    std::fs::create_dir(dirs[1].join("t-0")).expect("makes");
    std::fs::copy(
        dirs[0].join("t-0/partition.metadata"),
        dirs[1].join("t-0/partition.metadata"),
    )
    .expect("copies");
    let (second, list) = Replicas::start(config(&dirs, &Arc::default())).expect("starts");
    let problems: Vec<_> = list
        .iter()
        .filter_map(|local| local.problem.as_deref())
        .collect();
    assert_eq!(problems.len(), 1);
    assert!(
        problems[0].starts_with("the same partition is also in"),
        "{problems:?}"
    );
    assert_eq!(second.apply(&[order], 0), [Ok(())]);
    assert!(dirs[1].join("t-0").exists());
}

#[test]
fn a_partition_that_may_lie_on_a_lost_disk_is_not_made_anew() {
    let (root, dirs) = dirs(2);
    let blocked = root.path().join("file");
    std::fs::write(&blocked, "").expect("writes");
    let host = host(&[dirs[0].clone(), blocked.join("disk")]);
    assert_eq!(host.replicas.failed_dirs(), 1);
    let known = PartitionOrder {
        is_new: false,
        ..order(TopicId::random(), 0, 0)
    };
    assert!(matches!(
        host.replicas.apply(&[known], 0)[..],
        [Err(PartitionError::Storage(_))]
    ));
    lead(
        &host,
        &PartitionOrder {
            topic: "new".into(),
            ..order(TopicId::random(), 0, 0)
        },
    );
}
