//! Resolved settings of a topic, from a dict with Kafka's setting names and their values as texts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use pybroker_replica::{BrokerLogSettings, TopicConfig};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// The next sequence number of topic settings, in the order in which Python decides them.
static SEQUENCE: AtomicU64 = AtomicU64::new(1);

/// Return the next sequence number; see `TopicConfig::sequence`.
pub(super) fn next_sequence() -> u64 {
    SEQUENCE.fetch_add(1, Relaxed)
}

/// Parse all settings of a topic, with the next sequence number.
pub(super) fn topic_config(
    settings: &Bound<'_, PyDict>,
    broker: &BrokerLogSettings,
) -> PyResult<TopicConfig> {
    let sequence = next_sequence();
    Ok(TopicConfig {
        sequence,
        ..parse(settings, broker)?
    })
}

/// Parse all settings of a topic, with the given sequence number.
pub(super) fn parse(
    settings: &Bound<'_, PyDict>,
    broker: &BrokerLogSettings,
) -> PyResult<TopicConfig> {
    let mut texts: Vec<(String, String)> = Vec::with_capacity(settings.len());
    for (name, value) in settings.iter() {
        let name: String = name.cast::<PyString>()?.extract()?;
        let value = value
            .cast::<PyString>()
            .map_err(|_| {
                PyValueError::new_err(format!("{name}: resolved topic settings are texts"))
            })?
            .extract()?;
        texts.push((name, value));
    }
    TopicConfig::parse(
        texts
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str())),
        broker,
    )
    .map_err(|bad| PyValueError::new_err(bad.to_string()))
}
