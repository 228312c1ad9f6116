//! The driver: turns a node's inputs into events of the state machine, and executes its actions in order.

mod room;
mod snapshots;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use pybroker_metadata_log::{
    Directory, EncodeContext, Endpoint, LogError, MetadataLog, RecoveredState, SnapshotDownload,
    endpoints_of,
};
use pybroker_model::Uuid;
use pybroker_quorum::{
    Action, Ask, Body, Decision, Event, Quorum, Refusal, Request, Response, Settings, VoterSet,
};

use room::WaitForRoom;

use crate::addresses::Addresses;
use crate::clock::Clock;
use crate::delivery::Delivery;
use crate::disk::{Disk, Job};
use crate::inbox::Input;
use crate::outbox::Outbox;
use crate::output::{Outcome, Output};
use crate::settings::NodeSettings;
use crate::status::{NodeStatus, status};
use crate::topic_id::TopicIdCell;
use crate::wire::{
    Api, Incoming, Payload, ReplyTo, Sender, api_of, decode_response, encode_request,
    encode_response,
};

/// Maximum number of remembered requests without a response.
const PENDING_REQUESTS_MAX: usize = 4096;
/// Maximum bytes of batches, or of a snapshot, in one response, even if the request asks for more.
const RESPONSE_BYTES_MAX: usize = 8 << 20;

/// A request that was sent.
struct PendingRequest {
    peer: i32,
    api: Api,
}

/// The node without its threads.
pub(crate) struct Driver {
    settings: NodeSettings,
    sender: Arc<Sender>,
    clock: Clock,
    quorum: Quorum<Bytes>,
    /// Added to the correlations of the current state machine. Without it, a late response to a request of the previous
    /// state machine could be mistaken for a response to this one's.
    first_correlation: u64,
    files: Directory,
    log: MetadataLog<Directory>,
    disk: Disk,
    outbox: Outbox,
    delivery: Delivery,
    download: Option<SnapshotDownload<Directory>>,
    /// Requests that were sent, by correlation.
    asked: BTreeMap<u64, PendingRequest>,
    /// Requests that the state machine has not answered, by handle.
    replies: HashMap<u64, ReplyTo>,
    /// Undecided proposals: the number of records of each, or 1 for a voter change.
    proposals: HashMap<u64, u32>,
    addresses: Addresses,
    /// The topic id in the log, for other threads.
    topic_id: TopicIdCell,
    told_leader: Option<(i32, Option<i32>)>,
    told_voters: Option<VoterSet>,
    /// Set while the disk is full. The state machine has then halted.
    full: Option<WaitForRoom>,
    /// Whether the disk has failed, which leaves its content unknown.
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
        recovered: RecoveredState,
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
            Some(wait) => wait.deadline(),
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
        if self.full.is_some() {
            return self.take_in_full(input);
        }
        match input {
            Input::Request { handle, incoming } => self.on_request(handle, *incoming),
            Input::Response { correlation, body } => self.on_response(correlation, &body)?,
            Input::Failed {
                correlation,
                refused,
            } => {
                if let Some(PendingRequest { peer, .. }) = self.asked.remove(&correlation) {
                    let correlation = correlation - self.first_correlation;
                    self.step([match refused {
                        true => Event::Refused { peer },
                        false => Event::RequestFailed { correlation },
                    }]);
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
            Input::AnswerFetches => self.step([Event::AnswerFetches]),
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
        // Refuse a proposal for another epoch: the owner based it on that epoch's image.
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
        let Some(PendingRequest { peer, api }) = self.asked.remove(&correlation) else {
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

    /// Pass events to the state machine, and execute its actions.
    fn step(&mut self, events: impl IntoIterator<Item = Event<Bytes>>) {
        if self.failed || self.stopped || self.full.is_some() {
            return;
        }
        let mut actions = Vec::new();
        let now = self.clock.monotonic_ms();
        self.quorum.step_all(now, events, &mut actions);
        // Store the id before a response passes it to another node, which may then use it in fetches.
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
                // The leader still has the batches, so a snapshot download is no longer needed.
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

    /// Refuse to follow a leader whose log ends before committed records: this replica would lose records that its
    /// owner has already applied.
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
            position = self.download_position(id)?;
        }
        let api = api_of(&request.ask);
        let correlation = self.first_correlation + correlation;
        self.asked.insert(correlation, PendingRequest { peer, api });
        if self.asked.len() > PENDING_REQUESTS_MAX {
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
        self.failed = true;
        self.give_up_role([Event::StorageFailed]);
        self.give_up_proposals();
    }

    /// Pass the last events of a role to the state machine. Execute only the resulting messages and outcomes, because
    /// the disk accepts no writes.
    fn give_up_role(&mut self, events: impl IntoIterator<Item = Event<Bytes>>) {
        let mut actions = Vec::new();
        let now = self.clock.monotonic_ms();
        self.quorum.step_all(now, events, &mut actions);
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
                    // The result can be ignored, because only a FetchSnapshot can fail here.
                    let _ = self.send(peer, correlation, &request);
                }
                _ => {}
            }
        }
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
                // The first record of this epoch begins where the previous epoch ends.
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
