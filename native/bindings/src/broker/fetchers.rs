//! Replication: the leaders that this broker's partitions follow.

use std::collections::BTreeMap;
use std::sync::Arc;

use pybroker_client::{
    ClientSettings, ConnectionSettings, Registry, Software, Values, host_and_port,
};
use pybroker_fetcher::{Assignment, Broker, Fetchers, LeaderFigures};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::convert::{shown, tip};
use crate::plane::DataPlane;
use crate::uuid::Uuid;

/// Client software that the broker names to other brokers (KIP-511).
const SOFTWARE: Software = Software {
    name: "pybroker",
    version: env!("CARGO_PKG_VERSION"),
};

/// Address of another broker's inter-broker listener.
#[pyclass(
    frozen,
    get_all,
    eq,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BrokerAddress {
    broker_id: i32,
    host: String,
    port: u16,
}

/// The leader that a partition follows.
#[pyclass(
    frozen,
    get_all,
    eq,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FollowedPartition {
    topic_id: Uuid,
    partition: i32,
    leader: i32,
    leader_epoch: i32,
}

/// Statistics of the thread that fetches from one leader.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub(crate) struct FetcherFigures {
    leader: i32,
    partitions: u64,
    held_back: u64,
    connected: bool,
    requests: u64,
    bytes: u64,
    records: u64,
    lag_max: i64,
}

shown!(BrokerAddress, FollowedPartition, FetcherFigures);

impl From<LeaderFigures> for FetcherFigures {
    fn from(figures: LeaderFigures) -> Self {
        let LeaderFigures {
            leader,
            partitions,
            held_back,
            connected,
            requests,
            bytes,
            records,
            lag_max,
        } = figures;
        Self {
            leader,
            partitions,
            held_back,
            connected,
            requests,
            bytes,
            records,
            lag_max,
        }
    }
}

impl BrokerAddress {
    fn place(&self) -> Broker {
        Broker {
            id: self.broker_id,
            address: host_and_port(&self.host, self.port.into()),
        }
    }
}

impl FollowedPartition {
    fn assignment(&self) -> PyResult<Assignment> {
        Ok(Assignment {
            tip: tip(self.topic_id, self.partition)?,
            leader: self.leader,
            leader_epoch: self.leader_epoch,
        })
    }
}

/// The fetchers of one broker.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct NativeFetchers(Arc<DataPlane>);

impl NativeFetchers {
    pub(super) const fn new(plane: Arc<DataPlane>) -> Self {
        Self(plane)
    }

    fn started(&self) -> PyResult<Arc<Fetchers>> {
        self.0.fetchers().ok_or_else(|| {
            PyRuntimeError::new_err(
                "fetchers.start has not been called, or the broker is shut down",
            )
        })
    }
}

#[pymethods]
impl NativeFetchers {
    fn start(&self, connection: BTreeMap<String, String>) -> PyResult<()> {
        let values = Values::new("", &[ClientSettings::TABLE], &connection);
        let settings = ConnectionSettings::read(&values, Registry::InterBroker, SOFTWARE)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        self.0.start_fetchers(settings)
    }

    fn set_broker_epoch(&self, broker_epoch: i64) -> PyResult<()> {
        self.started()?.set_broker_epoch(broker_epoch);
        Ok(())
    }

    fn set(
        &self,
        py: Python<'_>,
        brokers: Vec<BrokerAddress>,
        partitions: Vec<FollowedPartition>,
    ) -> PyResult<()> {
        let fetchers = self.started()?;
        let brokers: Vec<_> = brokers.iter().map(BrokerAddress::place).collect();
        let assignments = partitions
            .iter()
            .map(FollowedPartition::assignment)
            .collect::<PyResult<Vec<_>>>()?;
        py.detach(|| fetchers.set(&brokers, &assignments))?;
        Ok(())
    }

    fn figures(&self) -> Vec<FetcherFigures> {
        let figures = self.0.fetchers().map(|fetchers| fetchers.figures());
        let all = figures.unwrap_or_default().into_iter();
        all.map(FetcherFigures::from).collect()
    }

    fn stop(&self, py: Python<'_>) {
        if let Some(fetchers) = self.0.fetchers() {
            py.detach(|| fetchers.stop());
        }
    }
}
