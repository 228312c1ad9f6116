//! Restored partitions of deleted topics, and state that a new topic of the same name must not inherit.

use super::*;
use crate::RoleNow;

fn deleting(dir: &std::path::Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir.join("deleting")) else {
        return Vec::new();
    };
    entries.map(|entry| entry.expect("lists").path()).collect()
}

fn delete(host: &Host, order: &PartitionOrder) {
    assert_eq!(host.replicas.stop(&[stop(order, true)], 0), [Ok(())]);
}

fn again(order: &PartitionOrder, leader_epoch: i32) -> PartitionOrder {
    PartitionOrder {
        is_new: false,
        leader_epoch,
        ..order.clone()
    }
}

fn append_all(partition: &Partition, values: &[&str]) {
    let appended = append(partition, values).expect("appends");
    wait(partition.committed(&appended)).expect("commits");
}

#[test]
fn a_successor_inherits_no_checkpoint() {
    let temp = tempfile::tempdir().expect("temp dir");
    let dirs = [temp.path().to_path_buf()];
    let first = order(TopicId::random(), 0, 0);
    {
        let host = host(&dirs);
        let partition = lead(&host, &first);
        append_all(&partition, &["a", "b", "c"]);
        host.replicas
            .delete_records(first.tip, 3)
            .expect("moves the start");
        drop(partition);
        host.replicas.shutdown(WAIT).expect("clean");
    }
    let second = order(TopicId::random(), 0, 1);
    {
        let host = host(&dirs);
        lead(&host, &again(&first, 0));
        delete(&host, &first);
        let partition = lead(&host, &second);
        assert_eq!(
            (partition.log_start_offset(), partition.log_end_offset()),
            (0, 0)
        );
        append_all(&partition, &["x"]);
        // Without a clean stop, the files stay unchanged.
    }
    let host = host(&dirs);
    let partition = lead(&host, &again(&second, 1));
    assert_eq!(
        (partition.log_start_offset(), partition.log_end_offset()),
        (0, 1)
    );
}

#[test]
fn what_was_deleted_comes_back_under_any_name_with_its_log_start() {
    let temp = tempfile::tempdir().expect("temp dir");
    let dirs = [temp.path().to_path_buf()];
    let host = host(&dirs);
    let first = order(TopicId::random(), 0, 0);
    let partition = lead(&host, &first);
    append_all(&partition, &["a", "b", "c"]);
    host.replicas
        .delete_records(first.tip, 2)
        .expect("moves the start");
    delete(&host, &first);
    let successor = order(TopicId::random(), 0, 1);
    lead(&host, &successor);
    assert!(
        host.replicas.restore(&[first.tip], &"t".into(), 0)[0].is_err(),
        "the place is taken"
    );
    for _ in 0..2 {
        assert_eq!(
            host.replicas.restore(&[first.tip], &"u".into(), 0),
            [Ok(())]
        );
    }
    assert!(deleting(temp.path()).is_empty());
    let back = PartitionOrder {
        topic: "u".into(),
        ..again(&first, 2)
    };
    let partition = lead(&host, &back);
    assert_eq!(
        (partition.log_start_offset(), partition.log_end_offset()),
        (2, 3)
    );
    assert!(!temp.path().join("u-0/deletion").exists());
    assert_eq!(
        host.replicas.restore(&[first.tip], &"u".into(), 0),
        [Ok(())]
    );
}

#[test]
fn an_order_for_the_same_id_brings_it_back() {
    let temp = tempfile::tempdir().expect("temp dir");
    let host = host(&[temp.path().to_path_buf()]);
    let first = order(TopicId::random(), 0, 0);
    append_all(&lead(&host, &first), &["a"]);
    delete(&host, &first);
    let partition = lead(&host, &again(&first, 1));
    assert_eq!(partition.log_end_offset(), 1);
    assert!(deleting(temp.path()).is_empty());
}

#[test]
fn what_has_begun_to_go_does_not_come_back() {
    let temp = tempfile::tempdir().expect("temp dir");
    let host = host(&[temp.path().to_path_buf()]);
    let first = order(TopicId::random(), 0, 0);
    append_all(&lead(&host, &first), &["a"]);
    delete(&host, &first);
    let [staged] = &deleting(temp.path())[..] else {
        panic!("one directory waits");
    };
    // Simulate a removal that a crash interrupted: the directory is marked and has lost its first file.
    let marked = staged.with_extension("purging");
    std::fs::rename(staged, &marked).expect("renames");
    std::fs::remove_file(marked.join("partition.metadata")).expect("removes");
    assert_eq!(
        host.replicas.restore(&[first.tip], &"t".into(), 0),
        [Err(PartitionError::Deleted)]
    );
    let waiting = host.replicas.staged().expect("lists");
    assert!(waiting[0].1.purging);
    assert_eq!(waiting[0].1.id, Some(first.tip));
    host.replicas.purge(&waiting[0].1.path).expect("goes");
    assert!(deleting(temp.path()).is_empty());
}

#[test]
fn a_truncated_topic_goes_on_at_its_start() {
    let temp = tempfile::tempdir().expect("temp dir");
    let dirs = [temp.path().to_path_buf()];
    let continued = PartitionOrder {
        start_offset: 500,
        ..order(TopicId::random(), 0, 3)
    };
    {
        let host = host(&dirs);
        let partition = lead(&host, &continued);
        assert_eq!(
            (partition.log_start_offset(), partition.log_end_offset()),
            (500, 500)
        );
        assert_eq!(
            append(&partition, &["a"]).expect("appends").base_offset,
            500
        );
        let end = partition.end_offset_for_epoch(1, -1).expect("leads");
        assert_eq!(end.end_offset, 500);
    }
    let host = host(&dirs);
    let partition = lead(
        &host,
        &PartitionOrder {
            is_new: false,
            ..continued.clone()
        },
    );
    assert_eq!(
        (partition.log_start_offset(), partition.log_end_offset()),
        (500, 501)
    );
}

#[test]
fn a_fenced_partition_takes_nothing_until_it_is_released() {
    let temp = tempfile::tempdir().expect("temp dir");
    let host = host(&[temp.path().to_path_buf()]);
    let first = order(TopicId::random(), 0, 0);
    let partition = lead(&host, &first);
    append_all(&partition, &["a"]);
    let id = first.tip.topic_id;
    let role = |fenced| RoleNow {
        partition: 0,
        leader_epoch: first.leader_epoch,
        leader: first.leader,
        fenced,
        offline: false,
    };
    assert_eq!(host.replicas.set_fenced(id, true), [(0, 0, 1)]);
    assert_eq!(host.replicas.roles(id), [role(true)]);
    assert_eq!(append(&partition, &["b"]), Err(PartitionError::NotLeader));
    assert_eq!(host.replicas.set_fenced(id, false), [(0, 0, 1)]);
    assert_eq!(host.replicas.roles(id), [role(false)]);
    append_all(&partition, &["b"]);
    host.replicas.retire(&[id]);
    let stopped = host.replicas.roles(id);
    assert_eq!((stopped[0].leader, stopped[0].leader_epoch), (-1, -1));
}

#[test]
fn a_replica_that_comes_back_after_a_reassignment_finds_what_it_had() {
    let temp = tempfile::tempdir().expect("temp dir");
    let host = host(&[temp.path().to_path_buf()]);
    let first = order(TopicId::random(), 0, 0);
    append_all(&lead(&host, &first), &["a", "b", "c"]);
    delete(&host, &first);
    // For the controller, the replica is new.
    let back = PartitionOrder {
        leader_epoch: 2,
        ..first.clone()
    };
    assert!(back.is_new);
    assert_eq!(lead(&host, &back).log_end_offset(), 3);
    assert!(deleting(temp.path()).is_empty());
}
