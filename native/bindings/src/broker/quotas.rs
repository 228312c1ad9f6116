//! Client quotas from Python, and checks of controller mutation quotas.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use pybroker_server::quotas::{EntityQuotas, QuotaDelta};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::convert::shown;
use crate::plane::DataPlane;

/// Quotas of one entity: a user, a client id, or both. A name is None if the entity does not have that part, and empty
/// for the default entity. A quota is None if it is not set.
#[pyclass(
    frozen,
    get_all,
    eq,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClientQuota {
    user: Option<String>,
    client_id: Option<String>,
    producer_byte_rate: Option<f64>,
    consumer_byte_rate: Option<f64>,
    request_percentage: Option<f64>,
    controller_mutation_rate: Option<f64>,
}

shown!(ClientQuota);

impl From<ClientQuota> for EntityQuotas {
    fn from(quota: ClientQuota) -> Self {
        EntityQuotas {
            user: quota.user,
            client_id: quota.client_id,
            values: [
                quota.producer_byte_rate,
                quota.consumer_byte_rate,
                quota.request_percentage,
                quota.controller_mutation_rate,
            ],
        }
    }
}

/// Client quotas of this broker.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct NativeQuotas(Arc<DataPlane>);

impl NativeQuotas {
    pub(super) const fn new(plane: Arc<DataPlane>) -> Self {
        Self(plane)
    }
}

#[pymethods]
impl NativeQuotas {
    /// Apply a change of the configuration.
    #[pyo3(signature = (*, clients, addresses, full))]
    fn publish(
        &self,
        clients: Vec<ClientQuota>,
        addresses: Vec<(Option<String>, Option<f64>)>,
        full: bool,
    ) -> PyResult<()> {
        let parsed = addresses.into_iter().map(|(address, rate)| {
            let address = address.map(|text| {
                let address = text.parse::<IpAddr>();
                address.map_err(|_| PyValueError::new_err(format!("{text} is not an IP address")))
            });
            Ok((address.transpose()?.map(|one| one.to_canonical()), rate))
        });
        let delta = QuotaDelta {
            full,
            entities: clients.into_iter().map(EntityQuotas::from).collect(),
            addresses: parsed.collect::<PyResult<_>>()?,
        };
        match self.0.server() {
            Some(server) => server.change_quotas(&delta),
            None => self.0.metadata.quotas().apply(&delta),
        }
        Ok(())
    }

    /// Return whether a quota limits how many partitions the client creates and deletes.
    fn bounds_mutations(&self, user: &str, client_id: &str) -> bool {
        self.0.metadata.quotas().bounds_mutations(user, client_id)
    }

    /// Count partitions that a client creates or deletes.
    #[pyo3(signature = (user, client_id, partitions, *, strict))]
    fn mutate(&self, user: &str, client_id: &str, partitions: f64, strict: bool) -> (bool, u32) {
        let quotas = self.0.metadata.quotas();
        match quotas.mutate(user, client_id, partitions, strict, Instant::now()) {
            Ok(wait_ms) => (true, wait_ms),
            Err(wait_ms) => (false, wait_ms),
        }
    }
}
