//! The driver: turns a node's inputs into events of the state machine, and executes its actions in order.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use pybroker_metadata_log::{
    Directory, EncodeContext, Endpoint, LogError, MetadataLog, Recovered, SnapshotDownload,
    SnapshotWriter, endpoints_of,
};
use pybroker_model::Uuid;
use pybroker_quorum::{
    Action, Answer, Ask, Body, Decision, EpochEnd, Error, Event, Quorum, Refusal, Request,
    Response, Settings, Snapshot, VoterSet,
};

use crate::addresses::Addresses;
use crate::clock::Clock;
use crate::delivery::Delivery;
use crate::disk::{Disk, Job};
use crate::inbox::Input;
use crate::outbox::Outbox;
use crate::output::{Outcome, Output};
use crate::room::{self, WaitForRoom};
use crate::settings::NodeSettings;
use crate::status::{NodeStatus, status};
use crate::topic_id::TopicIdCell;
use crate::wire::{
    Api, Incoming, Payload, ReplyTo, Sender, SnapshotPart, api_of, decode_response, encode_request,
    encode_response,
};

/// Maximum number of remembered requests without a response.
const ASKED_MAX: usize = 4096;
/// Maximum bytes of batches, or of a snapshot, in one response, even if the request asks for more.
const RESPONSE_BYTES_MAX: usize = 8 << 20;

/// Distance between the correlations of two state machines of one process.
const CORRELATIONS: u64 = 1 << 40;

/// A request that was sent.
struct Asked {
    peer: i32,
    api: Api,
}

/// The node without its threads.
pub(crate) struct Driver {
    settings: NodeSettings,
    sender: Arc<Sender>,
    clock: Clock,
    quorum: Quorum<Bytes>,
    /// Added to the correlations of the present state machine, so that a response to an earlier one is not taken for a
    /// response to this one.
    first_correlation: u64,
    files: Directory,
    log: MetadataLog<Directory>,
    disk: Disk,
    outbox: Outbox,
    delivery: Delivery,
    download: Option<SnapshotDownload<Directory>>,
    /// By correlation.
    asked: BTreeMap<u64, Asked>,
    /// By handle: requests that the state machine has not answered.
    replies: HashMap<u64, ReplyTo>,
    /// Undecided proposals: number of records, or 1 for a change of voters.
    proposals: HashMap<u64, u32>,
    addresses: Addresses,
    /// The topic id in the log, for other threads.
    topic_id: TopicIdCell,
    told_leader: Option<(i32, Option<i32>)>,
    told_voters: Option<VoterSet>,
    /// The disk is full; the state machine has halted.
    full: Option<WaitForRoom>,
    /// The disk has failed: its content is unknown.
    failed: bool,
    stopped: bool,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.settings.key;
        f.debug_struct("Driver")
            .field("key", &key)
            .finish_non_exhaustive()
    }
}

impl Driver {
    pub(crate) fn new(
        settings: NodeSettings,
        sender: Arc<Sender>,
        clock: Clock,
        (files, log): (Directory, MetadataLog<Directory>),
        recovered: Recovered,
        disk: Disk,
        outbox: Outbox,
    ) -> Result<Self, LogError> {
        for note in recovered.notes {
            outbox.push(Output::Warning(note));
        }
        let snapshot = log.open_snapshot(log.latest_snapshot())?;
        let delivery = Delivery::from_snapshot(snapshot, &outbox);
        let machine = machine_settings(&settings, &sender);
        let now = clock.monotonic_ms();
        let mut core = Self {
            quorum: Quorum::new(machine, recovered.state, recovered.index, now),
            first_correlation: 0,
            addresses: Addresses::new(settings.key.id, settings.endpoints.clone()),
            settings,
            sender,
            clock,
            files,
            log,
            disk,
            outbox,
            delivery,
            download: None,
            asked: BTreeMap::new(),
            replies: HashMap::new(),
            proposals: HashMap::new(),
            topic_id: TopicIdCell::default(),
            told_leader: None,
            told_voters: None,
            full: None,
            failed: false,
            stopped: false,
        };
        core.learn(recovered.endpoints);
        core.step([Event::Time]);
        core.tell_changes();
        core.deliver();
        Ok(core)
    }

    /// Return the topic id in the log, for other threads.
    pub(crate) fn topic_id(&self) -> TopicIdCell {
        self.topic_id.clone()
    }

    /// Return the time by which the owner must call [`Driver::take_in`].
    pub(crate) fn deadline(&self) -> u64 {
        match &self.full {
            Some(wait) if wait.drained => wait.retry_at,
            Some(_) => u64::MAX,
            None => self.quorum.deadline(),
        }
    }

    /// Process inputs. Return false if the node stops.
    pub(crate) fn take_in(&mut self, inputs: Vec<Input>) -> bool {
        let mut proposals = Vec::new();
        for input in inputs {
            if let Input::Propose {
                proposal,
                epoch,
                records,
                data,
            } = input
            {
                proposals.extend(self.propose(proposal, epoch, records, data));
                continue;
            }
            if !proposals.is_empty() {
                self.step(std::mem::take(&mut proposals));
            }
            if matches!(input, Input::Stop) {
                self.stop();
                return false;
            }
            if let Err(error) = self.take_in_one(input) {
                self.fail(&error);
            }
        }
        if !proposals.is_empty() {
            self.step(proposals);
        }
        if self.clock.monotonic_ms() >= self.deadline() {
            match self.full {
                Some(_) => self.reopen_if_room(),
                None => self.step([Event::Time]),
            }
        }
        self.tell_changes();
        self.deliver();
        true
    }

    fn take_in_one(&mut self, input: Input) -> Result<(), LogError> {
        let Some(wait) = &mut self.full else {
            return self.take_in_working(input);
        };
        match input {
            Input::Drained => {
                wait.drained = true;
                wait.retry_at = self.clock.monotonic_ms() + room::RETRY_MS;
            }
            Input::Request { handle, incoming } => {
                self.replies.insert(handle, incoming.reply);
                self.refuse(handle);
            }
            Input::AddVoter { proposal, .. } | Input::RemoveVoter { proposal, .. } => {
                let outcome = Outcome::Refused(Refusal::NotLeader);
                self.outbox.push(Output::Decided { proposal, outcome });
            }
            Input::StorageFailed(error) if !error.is_full() => return Err(error),
            // Recovery finds a snapshot that was written meanwhile.
            _ => {}
        }
        Ok(())
    }

    fn take_in_working(&mut self, input: Input) -> Result<(), LogError> {
        match input {
            Input::Request { handle, incoming } => self.on_request(handle, *incoming),
            Input::Response { correlation, body } => self.on_response(correlation, &body)?,
            Input::Failed {
                correlation,
                refused,
            } => {
                let asked = self.asked.remove(&correlation);
                if let Some(asked) = asked.filter(|_| refused) {
                    self.step([Event::Refused { peer: asked.peer }]);
                }
            }
            Input::Refused { peer } => self.step([Event::Refused { peer }]),
            Input::AddVoter { proposal, voter } => {
                self.proposals.insert(proposal, 1);
                self.step([Event::AddVoter { proposal, voter }]);
            }
            Input::RemoveVoter { proposal, voter } => {
                self.proposals.insert(proposal, 1);
                self.step([Event::RemoveVoter { proposal, voter }]);
            }
            Input::Resign { successor } => self.step([Event::Resign { successor }]),
            Input::SnapshotWritten(id) => self.on_snapshot_written(id)?,
            Input::Flushed { ticket } => {
                self.log.end_flush()?;
                self.step([Event::Flushed { ticket }]);
            }
            Input::StateWritten { ticket } => self.step([Event::StateWritten { ticket }]),
            Input::StorageFailed(error) => return Err(error),
            Input::Delivered | Input::Propose { .. } | Input::Stop | Input::Drained => {}
        }
        Ok(())
    }

    fn propose(
        &mut self,
        proposal: u64,
        epoch: i32,
        records: u32,
        data: Bytes,
    ) -> Option<Event<Bytes>> {
        // Refuse a proposal from another epoch: the owner decided it on that epoch's image.
        let leads = self.quorum.is_leader() && self.quorum.state().epoch == epoch;
        if !leads || self.failed || self.full.is_some() {
            let outcome = Outcome::Refused(Refusal::NotLeader);
            self.outbox.push(Output::Decided { proposal, outcome });
            return None;
        }
        self.proposals.insert(proposal, records);
        Some(Event::Propose {
            proposal,
            records,
            data,
        })
    }

    fn on_request(&mut self, handle: u64, incoming: Incoming) {
        self.learn(incoming.endpoints);
        self.replies.insert(handle, incoming.reply);
        let request = incoming.request;
        self.step([Event::Request { handle, request }]);
    }

    fn on_response(&mut self, correlation: u64, body: &Bytes) -> Result<(), LogError> {
        let Some(Asked { peer, api }) = self.asked.remove(&correlation) else {
            return Ok(());
        };
        let correlation = correlation - self.first_correlation;
        let reply = match decode_response(api, body) {
            Ok(reply) => reply,
            Err(error) => {
                // Treat an invalid response as lost: the state machine repeats the request.
                self.warn(format!("response of node {peer}: {error}"));
                return Ok(());
            }
        };
        self.learn(reply.endpoints);
        let mut response = reply.response;
        if let Some(part) = reply.part {
            response.answer = self.on_snapshot_part(part)?;
        }
        self.step([Event::Response {
            peer,
            correlation,
            response,
        }]);
        Ok(())
    }

    /// Store a part of the snapshot that is being fetched. Return `Empty` if it is not the expected part.
    fn on_snapshot_part(&mut self, part: SnapshotPart) -> Result<Answer<Bytes>, LogError> {
        let Some(mut download) = self.download.take() else {
            return Ok(Answer::Empty);
        };
        let position = u64::try_from(part.position).unwrap_or(u64::MAX);
        if download.id() != part.id || download.position() != position {
            self.download = Some(download);
            return Ok(Answer::Empty);
        }
        download.write(&part.bytes)?;
        if download.position() < u64::try_from(part.size).unwrap_or(0) {
            self.download = Some(download);
            return Ok(match part.bytes.is_empty() {
                true => Answer::Empty,
                false => Answer::SnapshotPart,
            });
        }
        match download.complete() {
            Ok(header) => Ok(Answer::Snapshot(Snapshot {
                header,
                content: Bytes::new(),
            })),
            Err(error) if error.is_damage() => {
                self.warn(format!("the leader's snapshot: {error}"));
                Ok(Answer::Empty)
            }
            Err(error) => Err(error),
        }
    }

    fn on_snapshot_written(&mut self, id: EpochEnd) -> Result<(), LogError> {
        let header = self.quorum.snapshot_header(id.offset);
        let start = self.log.snapshot_written(id)?;
        if let (Some(start), Some(header)) = (start, header) {
            self.step([Event::SnapshotWritten { header, start }]);
        }
        Ok(())
    }

    /// Pass events to the state machine, and execute its actions.
    fn step(&mut self, events: impl IntoIterator<Item = Event<Bytes>>) {
        if self.failed || self.stopped || self.full.is_some() {
            return;
        }
        let mut actions = Vec::new();
        let now = self.clock.monotonic_ms();
        self.quorum.step_all(now, events, &mut actions);
        // Before a response gives the id to another node, which then fetches by it.
        self.topic_id
            .set(self.quorum.log().topic_id().map(|(_, id)| id));
        for action in actions {
            if let Err(error) = self.act(action) {
                return self.fail(&error);
            }
        }
    }

    fn act(&mut self, action: Action<Bytes>) -> Result<(), LogError> {
        match action {
            Action::Send {
                peer,
                correlation,
                request,
            } => self.send(peer, correlation, &request)?,
            Action::Respond { handle, response } => {
                self.respond(handle, &response, &Payload::default());
            }
            Action::RespondWithBatches {
                handle,
                response,
                from,
                to,
            } => {
                let bytes_max = self.replies.get(&handle).map_or(0, |reply| reply.bytes_max);
                let bytes_max = bytes_max.min(RESPONSE_BYTES_MAX);
                let bytes = self.log.read(from, to, bytes_max)?;
                self.respond(handle, &response, &Payload { bytes, size: 0 });
            }
            Action::RespondWithSnapshot {
                handle,
                response,
                id,
            } => self.respond_with_snapshot(handle, response, id),
            Action::Append(batches) => {
                // The log goes on, so a snapshot that was being fetched is not needed any more.
                self.download = None;
                let context = EncodeContext {
                    timestamp_ms: self.clock.wall_ms(),
                    voters: self.quorum.voters(),
                    endpoints: self.addresses.all(),
                };
                let stored = self.log.append(&batches, &context)?;
                for (batch, stored) in batches.iter().zip(&stored) {
                    if matches!(batch.body, Body::Voters(_)) {
                        self.learn(endpoints_of(stored).unwrap_or_default());
                    }
                }
            }
            Action::Truncate(end) => {
                self.refuse_older(end)?;
                self.log.truncate(end)?;
            }
            Action::Install(snapshot) => {
                self.refuse_older(snapshot.header.id.offset)?;
                self.log.install(snapshot.header.id)?;
                let snapshot = self.log.open_snapshot(snapshot.header.id)?;
                let endpoints = snapshot.endpoints().to_vec();
                self.delivery.replace(snapshot, &self.outbox);
                self.learn(endpoints);
            }
            Action::Flush { ticket } => {
                let flush = self.log.begin_flush();
                self.disk.push(Job::Flush { ticket, flush });
            }
            Action::WriteState { ticket, state } => {
                let write = self.log.state_write(state);
                self.disk.push(Job::WriteState { ticket, write });
            }
            Action::Commit(end) => self.delivery.commit(end),
            Action::Become(_) => {}
            Action::Decide { proposal, decision } => self.decide(proposal, decision),
        }
        Ok(())
    }

    /// Refuse to follow a leader whose log ends before committed records. This replica would lose them, and its owner
    /// has acted upon them.
    fn refuse_older(&self, end: i64) -> Result<(), LogError> {
        let seen = self.settings.seen_offset.min(self.log.end_offset());
        let committed = seen.max(self.delivery.delivered());
        if end >= committed {
            return Ok(());
        }
        let leader = self.quorum.leader().unwrap_or(-1);
        Err(LogError::Older(format!(
            "the metadata log of leader {leader} was restored from an older copy, or is another one: it agrees with this \
             broker's log up to offset {end} only, but this broker has applied committed records up to offset \
             {committed}. Nothing was changed. Let a voter with the newest log lead, or accept the leader's log with \
             `pybroker cluster quorum accept-restored` while this broker is stopped"
        )))
    }

    fn send(&mut self, peer: i32, correlation: u64, request: &Request) -> Result<(), LogError> {
        let mut position = 0;
        if let Ask::FetchSnapshot { id } = request.ask {
            let download = match self.download.take().filter(|download| download.id() == id) {
                Some(download) => download,
                None => self.log.begin_download(id)?,
            };
            position = download.position().cast_signed();
            self.download = Some(download);
        }
        let api = api_of(&request.ask);
        let correlation = self.first_correlation + correlation;
        self.asked.insert(correlation, Asked { peer, api });
        if self.asked.len() > ASKED_MAX {
            self.asked.pop_first();
        }
        self.outbox.push(Output::Send {
            peer,
            address: self.addresses.of(peer),
            correlation,
            api_key: api.key,
            api_version: api.version,
            body: encode_request(request, &self.sender, position),
        });
        Ok(())
    }

    fn respond(&mut self, handle: u64, response: &Response<Bytes>, payload: &Payload) {
        let Some(reply) = self.replies.remove(&handle) else {
            return;
        };
        let leader = response.leader.and_then(|leader| self.addresses.of(leader));
        let endpoints = Vec::from_iter(leader);
        let body = encode_response(response, &reply, payload, &endpoints);
        self.outbox.push(Output::Respond { handle, body });
    }

    fn respond_with_snapshot(&mut self, handle: u64, mut response: Response<Bytes>, id: EpochEnd) {
        let Some(reply) = self.replies.get(&handle).copied() else {
            return;
        };
        let bytes_max = reply.bytes_max.min(RESPONSE_BYTES_MAX);
        let position = u64::try_from(reply.position).unwrap_or(u64::MAX);
        let read = self.log.open_snapshot(id).and_then(|snapshot| {
            let size = snapshot.size().cast_signed();
            let bytes = snapshot.part(position, bytes_max)?;
            Ok(Payload { bytes, size })
        });
        let payload = read.unwrap_or_else(|error| {
            response.error = Error::SnapshotNotFound;
            self.warn(format!("snapshot for node that lags: {error}"));
            Payload::default()
        });
        self.respond(handle, &response, &payload);
    }

    fn decide(&mut self, proposal: u64, decision: Decision) {
        let records = self.proposals.remove(&proposal).unwrap_or(0);
        let outcome = match decision {
            Decision::Refused(refusal) => Outcome::Refused(refusal),
            Decision::Unknown => Outcome::Unknown,
            Decision::Committed { end_offset } => {
                let outcome = Outcome::Committed {
                    base_offset: end_offset - i64::from(records),
                    end_offset,
                };
                let output = Output::Decided { proposal, outcome };
                return self.delivery.tell_after(end_offset, output);
            }
        };
        self.outbox.push(Output::Decided { proposal, outcome });
    }

    /// Give up the role until there is room. The disk thread first finishes what it has; the log is opened again after
    /// that, because a write may have failed half way.
    fn wait_for_room(&mut self, error: &LogError) {
        if self.full.is_some() {
            return;
        }
        self.outbox.push(Output::Room(Some(error.to_string())));
        let now = self.clock.monotonic_ms();
        let mut actions = Vec::new();
        // A leader lets the others elect at once.
        let resign = Event::Resign { successor: None };
        self.quorum
            .step_all(now, [resign, Event::StorageFailed], &mut actions);
        self.full = Some(WaitForRoom::default());
        self.disk.push(Job::Drain);
        self.asked.clear();
        self.download = None;
        for action in actions {
            match action {
                Action::Respond { handle, response } => {
                    self.respond(handle, &response, &Payload::default());
                }
                Action::Decide { proposal, decision } => self.decide(proposal, decision),
                Action::Send {
                    peer,
                    correlation,
                    request,
                } if matches!(request.ask, Ask::EndQuorumEpoch { .. }) => {
                    // Only a FetchSnapshot can fail here.
                    let _ = self.send(peer, correlation, &request);
                }
                _ => {}
            }
        }
        let unanswered: Vec<u64> = self.replies.keys().copied().collect();
        for handle in unanswered {
            self.refuse(handle);
        }
        self.give_up_proposals();
    }

    /// Refuse a request while the disk is full: this node leads no epoch and votes in none.
    fn refuse(&mut self, handle: u64) {
        let response = Response {
            error: Error::NotLeader,
            epoch: self.quorum.state().epoch,
            leader: None,
            answer: Answer::Empty,
        };
        self.respond(handle, &response, &Payload::default());
    }

    /// Open the log again and go on with a new state machine, as after a restart of the process.
    fn reopen_if_room(&mut self) {
        let now = self.clock.monotonic_ms();
        if let Some(wait) = &mut self.full {
            wait.retry_at = now + room::RETRY_MS;
        }
        if self.failed || self.stopped || !room::has_room(&self.files) {
            return;
        }
        match self.reopen(now) {
            Ok(()) => {
                self.outbox.push(Output::Room(None));
                self.step([Event::Time]);
            }
            Err(error) if error.is_full() => {}
            Err(error) => self.halt(&error),
        }
    }

    fn reopen(&mut self, now: u64) -> Result<(), LogError> {
        let (log, recovered) = MetadataLog::open(self.files.clone(), self.settings.log)?;
        self.delivery.reopen(&log, &self.outbox)?;
        self.log = log;
        for note in recovered.notes {
            self.warn(note);
        }
        self.first_correlation += CORRELATIONS;
        self.asked.clear();
        let machine = machine_settings(&self.settings, &self.sender);
        self.quorum = Quorum::new(machine, recovered.state, recovered.index, now);
        self.full = None;
        self.learn(recovered.endpoints);
        Ok(())
    }

    fn fail(&mut self, error: &LogError) {
        match error.is_full() {
            true => self.wait_for_room(error),
            false => self.halt(error),
        }
    }

    /// Halt, because the disk has failed or the log is damaged.
    fn halt(&mut self, error: &LogError) {
        if self.failed {
            return;
        }
        self.outbox.push(Output::Failed(error.to_string()));
        let mut actions = Vec::new();
        let now = self.clock.monotonic_ms();
        self.quorum.step(now, Event::StorageFailed, &mut actions);
        self.failed = true;
        for action in actions {
            match action {
                Action::Respond { handle, response } => {
                    self.respond(handle, &response, &Payload::default());
                }
                Action::Decide { proposal, decision } => self.decide(proposal, decision),
                _ => {}
            }
        }
        self.give_up_proposals();
    }

    fn give_up_proposals(&mut self) {
        for (proposal, _) in std::mem::take(&mut self.proposals) {
            let outcome = Outcome::Unknown;
            self.outbox.push(Output::Decided { proposal, outcome });
        }
    }

    fn stop(&mut self) {
        self.give_up_proposals();
        self.stopped = true;
    }

    /// Let the disk thread end when its jobs are done.
    pub(crate) fn close_disk(&mut self) {
        self.disk.close();
    }

    /// Flush the log after the disk thread has ended. After a disk failure do not sync, because success would prove
    /// nothing.
    pub(crate) fn close(&mut self) -> Result<(), LogError> {
        match self.failed || self.full.is_some() {
            true => Ok(()),
            false => self.log.close(),
        }
    }

    fn deliver(&mut self) {
        let delivered = self.delivery.deliver(&self.log, &self.outbox);
        if let Err(error) = delivered {
            self.fail(&error);
        }
    }

    fn tell_changes(&mut self) {
        let state = self.quorum.state();
        let leader = (state.epoch, self.quorum.leader());
        if self.told_leader != Some(leader) {
            self.told_leader = Some(leader);
            self.delivery.forget_leader();
            let (epoch, leader) = leader;
            let output = Output::Leader { epoch, leader };
            if leader == Some(self.settings.key.id) {
                // The end of the previous epoch, where this epoch's first record begins.
                let begins = self.quorum.log().end_of_epoch(epoch - 1).offset;
                self.delivery.tell_after(begins + 1, output);
            } else {
                self.outbox.push(output);
            }
        }
        if self.told_voters.as_ref() != Some(self.quorum.voters()) {
            let voters = self.quorum.voters().clone();
            self.outbox.push(Output::Voters {
                voters: voters.iter().collect(),
                endpoints: self.addresses.of_voters(&voters),
            });
            self.told_voters = Some(voters);
        }
    }

    /// Begin a snapshot of the records delivered up to `end`, the end of a committed batch. `None` if `end` is not
    /// committed, or not beyond the latest snapshot.
    pub(crate) fn begin_snapshot(
        &self,
        end: i64,
        timestamp_ms: i64,
    ) -> Result<Option<SnapshotWriter<Directory>>, LogError> {
        let Some(header) = self.quorum.snapshot_header(end) else {
            return Ok(None);
        };
        let voters = self.addresses.of_voters(&header.voters);
        let writer = self.log.begin_snapshot(&header, &voters, timestamp_ms)?;
        Ok(Some(writer))
    }

    pub(crate) fn status(&self) -> NodeStatus {
        status(
            &self.quorum,
            self.settings.key,
            &self.addresses,
            &self.clock,
        )
    }

    /// Remember addresses of nodes.
    pub(crate) fn learn(&mut self, endpoints: Vec<Endpoint>) {
        self.addresses.learn(endpoints);
    }

    fn warn(&self, text: String) {
        self.outbox.push(Output::Warning(text));
    }
}

fn machine_settings(settings: &NodeSettings, sender: &Sender) -> Settings {
    let mut machine = Settings::new(
        settings.key,
        sender.cluster_key,
        Uuid::random(),
        settings.seed,
    );
    machine.bootstrap.clone_from(&settings.bootstrap);
    machine.timeouts = settings.timeouts;
    machine
}
