//! Outputs of a quorum node for Python, one class for each kind.

use bytes::Bytes;
use pybroker_protocol::ErrorCode;
use pybroker_quorum::Refusal;
use pybroker_quorum_node::{Outcome, Output};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::values::{QuorumEndpoint, QuorumReplica};
use crate::convert::shown;

/// A request to send.
#[pyclass(frozen, get_all, module = "pybroker._native")]
#[derive(Debug)]
pub(crate) struct QuorumRequest {
    peer: i32,
    address: Option<QuorumEndpoint>,
    correlation: u64,
    api_key: i16,
    api_version: i16,
    body: Py<PyBytes>,
}

/// The response to a request that was received.
#[pyclass(frozen, get_all, module = "pybroker._native")]
#[derive(Debug)]
pub(crate) struct QuorumResponse {
    handle: u64,
    body: Py<PyBytes>,
}

/// A snapshot replaces the image.
#[pyclass(frozen, get_all, module = "pybroker._native")]
#[derive(Debug)]
pub(crate) struct SnapshotStart {
    end_offset: i64,
    epoch: i32,
    timestamp_ms: i64,
}

/// Records of the snapshot.
#[pyclass(frozen, get_all, module = "pybroker._native")]
#[derive(Debug)]
pub(crate) struct SnapshotRecords {
    records: Py<PyList>,
}

/// The snapshot is complete.
#[pyclass(frozen, get_all, module = "pybroker._native")]
#[derive(Debug)]
pub(crate) struct SnapshotEnd {
    end_offset: i64,
    epoch: i32,
}

/// A committed batch.
#[pyclass(frozen, get_all, module = "pybroker._native")]
#[derive(Debug)]
pub(crate) struct CommittedRecords {
    base_offset: i64,
    end_offset: i64,
    epoch: i32,
    timestamp_ms: i64,
    records: Py<PyList>,
}

/// The outcome of a proposal or a voter change.
#[pyclass(frozen, get_all, module = "pybroker._native")]
#[derive(Debug)]
pub(crate) struct ProposalOutcome {
    proposal: u64,
    error_code: i16,
    maybe_committed: bool,
    base_offset: i64,
    end_offset: i64,
}

/// The epoch or its leader has changed.
#[pyclass(frozen, get_all, module = "pybroker._native")]
#[derive(Debug)]
pub(crate) struct QuorumLeader {
    epoch: i32,
    leader: Option<i32>,
}

/// The voters have changed.
#[pyclass(frozen, get_all, module = "pybroker._native")]
#[derive(Debug)]
pub(crate) struct QuorumVoters {
    voters: Vec<QuorumReplica>,
    endpoints: Vec<QuorumEndpoint>,
}

/// A warning for the log.
#[pyclass(frozen, get_all, module = "pybroker._native")]
#[derive(Debug)]
pub(crate) struct QuorumWarning {
    message: String,
}

/// The disk is full, or has free space again.
#[pyclass(frozen, get_all, module = "pybroker._native")]
#[derive(Debug)]
pub(crate) struct QuorumRoom {
    problem: Option<String>,
}

/// The disk has failed.
#[pyclass(frozen, get_all, module = "pybroker._native")]
#[derive(Debug)]
pub(crate) struct QuorumFailure {
    message: String,
}

shown!(
    QuorumRequest,
    QuorumResponse,
    SnapshotStart,
    SnapshotRecords,
    SnapshotEnd,
    CommittedRecords,
    ProposalOutcome,
    QuorumLeader,
    QuorumVoters,
    QuorumWarning,
    QuorumRoom,
    QuorumFailure
);

/// Return the Python object of an output.
pub(super) fn to_python(py: Python<'_>, output: Output) -> PyResult<Bound<'_, PyAny>> {
    let bytes = |bytes: &Bytes| PyBytes::new(py, bytes).unbind();
    match output {
        Output::Send {
            peer,
            address,
            correlation,
            api_key,
            api_version,
            body,
        } => object(
            py,
            QuorumRequest {
                peer,
                address: address.map(Into::into),
                correlation,
                api_key,
                api_version,
                body: bytes(&body),
            },
        ),
        Output::Respond { handle, body } => {
            let body = bytes(&body);
            object(py, QuorumResponse { handle, body })
        }
        Output::SnapshotBegins { id, timestamp_ms } => object(
            py,
            SnapshotStart {
                end_offset: id.offset,
                epoch: id.epoch,
                timestamp_ms,
            },
        ),
        Output::SnapshotRecords(records) => {
            let records = list(py, &records)?;
            object(py, SnapshotRecords { records })
        }
        Output::SnapshotEnds(id) => object(
            py,
            SnapshotEnd {
                end_offset: id.offset,
                epoch: id.epoch,
            },
        ),
        Output::Committed {
            base_offset,
            end_offset,
            epoch,
            timestamp_ms,
            records,
        } => object(
            py,
            CommittedRecords {
                base_offset,
                end_offset,
                epoch,
                timestamp_ms,
                records: list(py, &records)?,
            },
        ),
        Output::Decided { proposal, outcome } => object(py, outcome_of(proposal, outcome)),
        Output::Leader { epoch, leader } => object(py, QuorumLeader { epoch, leader }),
        Output::Voters { voters, endpoints } => object(
            py,
            QuorumVoters {
                voters: voters.into_iter().map(Into::into).collect(),
                endpoints: endpoints.into_iter().map(Into::into).collect(),
            },
        ),
        Output::Warning(message) => object(py, QuorumWarning { message }),
        Output::Room(problem) => object(py, QuorumRoom { problem }),
        Output::Failed(message) => object(py, QuorumFailure { message }),
    }
}

fn outcome_of(proposal: u64, outcome: Outcome) -> ProposalOutcome {
    let failed = |code: ErrorCode, maybe_committed| ProposalOutcome {
        proposal,
        error_code: code.0,
        maybe_committed,
        base_offset: -1,
        end_offset: -1,
    };
    match outcome {
        Outcome::Committed {
            base_offset,
            end_offset,
        } => ProposalOutcome {
            proposal,
            error_code: ErrorCode::NONE.0,
            maybe_committed: true,
            base_offset,
            end_offset,
        },
        Outcome::Unknown => failed(ErrorCode::NOT_CONTROLLER, true),
        Outcome::Refused(refusal) => {
            let code = match refusal {
                Refusal::NotLeader => ErrorCode::NOT_CONTROLLER,
                Refusal::NotReady | Refusal::NotCaughtUp => ErrorCode::REQUEST_TIMED_OUT,
                Refusal::DuplicateVoter => ErrorCode::DUPLICATE_VOTER,
                Refusal::VoterNotFound => ErrorCode::VOTER_NOT_FOUND,
                Refusal::LastVoter => ErrorCode::INVALID_REQUEST,
            };
            failed(code, false)
        }
    }
}

fn object<'py, T: Into<PyClassInitializer<T>> + pyo3::PyClass>(
    py: Python<'py>,
    value: T,
) -> PyResult<Bound<'py, PyAny>> {
    Bound::new(py, value).map(Bound::into_any)
}

fn list(py: Python<'_>, records: &[Bytes]) -> PyResult<Py<PyList>> {
    let records = records.iter().map(|record| PyBytes::new(py, record));
    PyList::new(py, records.collect::<Vec<_>>()).map(Bound::unbind)
}
