//! Nodes with real directories. The test itself passes the messages between them.

#![expect(
    clippy::disallowed_methods,
    reason = "the nodes' clocks, and tests wait with a limit"
)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pybroker_metadata_log::LogOptions;
use pybroker_model::Uuid;
use pybroker_quorum::{Refusal, ReplicaKey, RoleName, Timeouts};
use pybroker_quorum_node::{Clock, Node, NodeSettings, Outcome, Output};

const LIMIT: Duration = Duration::from_secs(60);

fn key(id: i32) -> ReplicaKey {
    let directory = Uuid::from_u128(1000 + u128::from(id.unsigned_abs()));
    ReplicaKey { id, directory }
}

/// The outputs that a node's owner has applied.
#[derive(Default)]
struct Owner {
    /// Records of the image: the snapshot's records, then the records committed after it.
    image: Vec<Bytes>,
    applied: i64,
    timestamp_ms: i64,
    snapshots: usize,
    leader: Option<(i32, Option<i32>)>,
    outcomes: BTreeMap<u64, Outcome>,
}

/// A cluster in which one node can be disconnected.
struct Cluster {
    root: tempfile::TempDir,
    nodes: BTreeMap<i32, Node>,
    owners: BTreeMap<i32, Owner>,
    cut: Option<i32>,
    /// The requesting node and the correlation of each unanswered request, by handle.
    waiting: BTreeMap<u64, (i32, u64)>,
    last: u64,
}

impl Cluster {
    fn new(ids: &[i32], voters: &[i32]) -> Self {
        let mut cluster = Self {
            root: tempfile::tempdir().expect("a directory"),
            nodes: BTreeMap::new(),
            owners: BTreeMap::new(),
            cut: None,
            waiting: BTreeMap::new(),
            last: 0,
        };
        for &id in ids {
            let first = match voters.contains(&id) {
                true => voters.iter().map(|&id| key(id)).collect(),
                false => Vec::new(),
            };
            Node::format(&cluster.directory(id), first, &[], 1).expect("formatted");
            cluster.start(id);
        }
        cluster
    }

    fn directory(&self, id: i32) -> PathBuf {
        self.root.path().join(id.to_string())
    }

    fn start(&mut self, id: i32) {
        let settings = NodeSettings {
            key: key(id),
            cluster_id: "a cluster".into(),
            bootstrap: vec![1, 2, 3],
            endpoints: Vec::new(),
            timeouts: Timeouts::default(),
            log: LogOptions {
                segment_bytes: 4096,
                ..LogOptions::default()
            },
            // Small enough that a node fetches a snapshot or a long log in several parts.
            fetch_bytes_max: 1000,
            seen_offset: 0,
            seed: u64::from(id.unsigned_abs()),
        };
        let start = Instant::now();
        let clock = Clock::new(
            move || start.elapsed().as_millis() as u64,
            || 1_700_000_000_000,
        );
        let node = Node::open(&self.directory(id), settings, clock, || {});
        self.nodes.insert(id, node.expect("a node"));
        self.owners.insert(id, Owner::default());
    }

    fn stop(&mut self, id: i32) {
        let node = self.nodes.remove(&id).expect("a node");
        node.stop().expect("closed");
    }

    /// Pass messages between the nodes until `done` returns true.
    fn run_until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let begin = Instant::now();
        while !done(self) {
            assert!(begin.elapsed() < LIMIT, "{what}");
            let ids: Vec<i32> = self.nodes.keys().copied().collect();
            for id in ids {
                for output in self.nodes[&id].take() {
                    self.carry(id, output);
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn carry(&mut self, from: i32, output: Output) {
        let owner = self.owners.entry(from).or_default();
        match output {
            Output::Send {
                peer,
                correlation,
                api_key,
                api_version,
                body,
                ..
            } => {
                if self.cut == Some(from) || self.cut == Some(peer) {
                    return;
                }
                let Some(to) = self.nodes.get(&peer) else {
                    return self.nodes[&from].request_failed(correlation, true);
                };
                self.last += 1;
                self.waiting.insert(self.last, (from, correlation));
                to.receive_request(self.last, api_key, api_version, &body)
                    .expect("a message");
            }
            Output::Respond { handle, body } => {
                let (to, correlation) = self.waiting.remove(&handle).expect("a request");
                let cut = self.cut == Some(from) || self.cut == Some(to);
                if let Some(to) = self.nodes.get(&to).filter(|_| !cut) {
                    to.receive_response(correlation, body);
                }
            }
            Output::SnapshotBegins { id, timestamp_ms } => {
                owner.image.clear();
                owner.applied = id.offset;
                owner.timestamp_ms = timestamp_ms;
                owner.snapshots += 1;
            }
            Output::SnapshotRecords(records) => owner.image.extend(records),
            Output::Committed {
                base_offset,
                end_offset,
                records,
                timestamp_ms,
                ..
            } => {
                assert_eq!(base_offset, owner.applied, "batches come in order");
                owner.applied = end_offset;
                owner.timestamp_ms = timestamp_ms;
                owner.image.extend(records);
            }
            Output::Decided { proposal, outcome } => {
                if let Outcome::Committed { end_offset, .. } = outcome {
                    assert!(owner.applied >= end_offset, "applied before it is told");
                }
                owner.outcomes.insert(proposal, outcome);
            }
            Output::Leader { epoch, leader } => owner.leader = Some((epoch, leader)),
            Output::Failed(reason) => panic!("node {from}: {reason}"),
            Output::SnapshotEnds(_)
            | Output::Voters { .. }
            | Output::Warning(_)
            | Output::Room(_) => {}
        }
    }

    /// The node that considers itself leader, and its epoch.
    fn leader(&self) -> Option<(i32, i32)> {
        let leads = |id: i32| match self.owners[&id].leader {
            Some((epoch, Some(leader))) if leader == id && self.cut != Some(id) => Some(epoch),
            _ => None,
        };
        let leaders = self.nodes.keys().filter_map(|&id| Some((id, leads(id)?)));
        leaders.max_by_key(|&(_, epoch)| epoch)
    }

    fn elect(&mut self) -> (i32, i32) {
        self.run_until("a leader", |cluster| cluster.leader().is_some());
        self.leader().expect("a leader")
    }

    fn outcome(&mut self, id: i32, proposal: u64) -> Outcome {
        self.run_until("a proposal is decided", |cluster| {
            cluster.owners[&id].outcomes.contains_key(&proposal)
        });
        self.owners[&id].outcomes[&proposal]
    }

    /// Propose records, one in each proposal, and wait until all are committed.
    fn propose(&mut self, names: std::ops::Range<u64>) {
        let (leader, epoch) = self.elect();
        for name in names.clone() {
            let value = format!("record {name}");
            let values = [value.as_bytes()].into_iter();
            self.nodes[&leader]
                .propose(name, epoch, values)
                .expect("taken");
        }
        for name in names {
            let outcome = self.outcome(leader, name);
            let committed = matches!(outcome, Outcome::Committed { .. });
            assert!(committed, "{name}: {outcome:?}");
        }
    }

    fn run_until_all_have(&mut self, records: usize) {
        self.run_until("all nodes have all records", |cluster| {
            let mut images = cluster.nodes.keys().map(|id| &cluster.owners[id]);
            images.all(|owner| owner.image.len() >= records)
        });
        for id in self.nodes.keys() {
            let image = &self.owners[id].image;
            let names: Vec<String> = (0..records).map(|name| format!("record {name}")).collect();
            assert!(image.iter().eq(names.iter()), "node {id}: {image:?}");
        }
    }

    /// Write a snapshot of everything that a node's owner has applied.
    fn snapshot(&mut self, id: i32) {
        let (owner, node) = (&self.owners[&id], &self.nodes[&id]);
        let end = owner.applied;
        let task = node.begin_snapshot(end, owner.timestamp_ms);
        let mut task = task.expect("a disk").expect("a snapshot");
        let second = node.begin_snapshot(end, 0).expect("a disk");
        assert!(second.is_none(), "one at a time");
        for records in owner.image.chunks(100) {
            let values = records.iter().map(|record| &record[..]);
            task.append(values).expect("written");
        }
        task.finish().expect("on disk");
        self.run_until("the snapshot is taken note of", |cluster| {
            cluster.nodes[&id].status().snapshot.offset == end
        });
    }
}

fn segments(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let mut found: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|suffix| suffix == "log"))
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy();
            (name.into_owned(), std::fs::read(&path).expect("a file"))
        })
        .collect();
    found.sort();
    found
}

#[test]
fn single_node_leads_at_once_and_remembers() {
    let mut cluster = Cluster::new(&[1], &[1]);
    cluster.propose(0..50);
    cluster.stop(1);
    cluster.start(1);
    cluster.run_until_all_have(50);
    cluster.propose(50..60);
    cluster.run_until_all_have(60);
    let status = cluster.nodes[&1].status();
    assert_eq!((status.role, status.leader), (RoleName::Leader, Some(1)));
    assert!(status.topic_id.is_some());
    assert_eq!(status.high_watermark, status.log_end);
}

#[test]
fn three_nodes_go_on_without_their_leader() {
    let mut cluster = Cluster::new(&[1, 2, 3], &[1, 2, 3]);
    cluster.propose(0..100);
    let (first, epoch) = cluster.elect();
    cluster.stop(first);
    cluster.run_until("another leader", |cluster| {
        cluster.leader().is_some_and(|(id, _)| id != first)
    });
    cluster.propose(100..200);
    cluster.start(first);
    cluster.run_until_all_have(200);
    // The node refuses a proposal that is based on an older epoch's image.
    let (leader, _) = cluster.elect();
    let values = [&b"late"[..]].into_iter();
    cluster.nodes[&leader]
        .propose(999, epoch, values)
        .expect("taken");
    let refused = Outcome::Refused(Refusal::NotLeader);
    assert_eq!(cluster.outcome(leader, 999), refused);
    cluster.run_until("all are as far", |cluster| {
        let ends = cluster.nodes.values().map(|node| node.status().log_end);
        let ends: Vec<i64> = ends.collect();
        ends.iter().all(|end| *end == ends[0])
    });
    let all: Vec<_> = [1, 2, 3].map(|id| cluster.directory(id)).into();
    for id in [1, 2, 3] {
        cluster.stop(id);
    }
    assert!(segments(&all[0]).len() > 2);
    assert_eq!(segments(&all[0]), segments(&all[1]));
    assert_eq!(segments(&all[0]), segments(&all[2]));
}

#[test]
fn undecided_proposals_of_a_deposed_leader_are_told() {
    let mut cluster = Cluster::new(&[1, 2, 3], &[1, 2, 3]);
    cluster.propose(0..10);
    let (leader, epoch) = cluster.elect();
    cluster.cut = Some(leader);
    let values = [&b"lost"[..]].into_iter();
    cluster.nodes[&leader]
        .propose(500, epoch, values)
        .expect("taken");
    assert_eq!(cluster.outcome(leader, 500), Outcome::Unknown);
    cluster.propose(10..20);
    cluster.cut = None;
    cluster.run_until_all_have(20);
}

#[test]
fn follower_that_lags_fetches_a_snapshot() {
    let mut cluster = Cluster::new(&[1, 2, 3], &[1, 2, 3]);
    cluster.propose(0..200);
    cluster.run_until_all_have(200);
    let (leader, _) = cluster.elect();
    let lagging = if leader == 3 { 2 } else { 3 };
    cluster.stop(lagging);
    cluster.propose(200..400);
    cluster.snapshot(leader);
    cluster.propose(400..600);
    cluster.snapshot(leader);
    let start = cluster.nodes[&leader].status().log_start;
    assert!(start > 400, "{start}");
    let first = &segments(&cluster.directory(leader))[0].0;
    assert_ne!(first, "00000000000000000000.log");
    cluster.propose(600..650);
    cluster.start(lagging);
    cluster.run_until_all_have(650);
    let owner = &cluster.owners[&lagging];
    assert_eq!(owner.snapshots, 2, "one at its start, one from the leader");
    // The restarted node starts from that snapshot.
    cluster.stop(lagging);
    cluster.start(lagging);
    cluster.run_until_all_have(650);
    assert_eq!(cluster.owners[&lagging].snapshots, 1);
}

#[test]
fn observer_becomes_a_voter() {
    let mut cluster = Cluster::new(&[1, 2], &[1]);
    cluster.propose(0..10);
    cluster.run_until_all_have(10);
    let status = cluster.nodes[&1].status();
    assert_eq!((status.voters.len(), status.observers.len()), (1, 1));
    assert_eq!(status.observers[0].key, key(2));
    cluster.nodes[&1].add_voter(700, key(2), Vec::new());
    let outcome = cluster.outcome(1, 700);
    assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
    let status = cluster.nodes[&1].status();
    assert_eq!(status.voters.len(), 2);
    assert_eq!(status.voters[1].end_offset, status.log_end);
    assert!(status.voters[1].caught_up_ms.is_some());
    // When this leader resigns and is removed, the other node leads.
    cluster.nodes[&1].resign(Some(2));
    cluster.run_until("the other leads", |cluster| {
        cluster.leader().is_some_and(|(id, _)| id == 2)
    });
    cluster.nodes[&2].remove_voter(701, key(1));
    let outcome = cluster.outcome(2, 701);
    assert!(matches!(outcome, Outcome::Committed { .. }), "{outcome:?}");
    cluster.stop(1);
    cluster.propose(10..20);
    cluster.run_until_all_have(20);
}

#[test]
fn records_wait_for_the_owner() {
    let mut cluster = Cluster::new(&[1], &[1]);
    let (leader, epoch) = cluster.elect();
    let value = vec![7; 100_000];
    for name in 0..200 {
        let values = [&value[..]].into_iter();
        cluster.nodes[&leader]
            .propose(name, epoch, values)
            .expect("taken");
    }
    let begin = Instant::now();
    while cluster.nodes[&leader].status().high_watermark < 200 {
        assert!(begin.elapsed() < LIMIT);
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut sizes = Vec::new();
    while sizes.iter().sum::<usize>() < 200 {
        assert!(begin.elapsed() < LIMIT);
        let taken = cluster.nodes[&leader].take();
        let records = taken.iter().filter(
            |output| matches!(output, Output::Committed { records, .. } if !records.is_empty()),
        );
        sizes.push(records.count());
    }
    // The outbox holds at most 4 MiB, plus the bytes of one read.
    assert!(sizes.iter().all(|&size| size < 50), "{sizes:?}");
}
