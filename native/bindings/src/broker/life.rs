//! The data plane's life: first the log directories, then the listeners, then settings that change, at last the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pybroker_replica::{Background, Replicas, ReplicasConfig};
use pybroker_server::Server;
use pybroker_server::config::{LogLevel, LogSink, ServerConfig};
use pybroker_server::control_plane::ControlPlane;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use super::{NativeBroker, now_ms};
use crate::errors::{ListenerError, log_dir_error};
use crate::listeners::{ListenerProblem, listener_config};
use crate::orders::LocalPartition;
use crate::settings::NativeSettings;

impl NativeBroker {
    pub(super) fn replicas(&self) -> PyResult<Arc<Replicas>> {
        self.replicas.load_full().ok_or_else(|| {
            PyRuntimeError::new_err(
                "start_log_dirs has not been called, or the broker is shut down",
            )
        })
    }

    pub(super) fn server(&self) -> PyResult<Arc<Server>> {
        self.server.load_full().ok_or_else(|| {
            PyRuntimeError::new_err(
                "open_listeners has not been called, or the broker is shut down",
            )
        })
    }

    fn log_sink(&self) -> LogSink {
        let queue = Arc::clone(&self.queue);
        Arc::new(move |level, text: &str| queue.log(level, text.to_owned()))
    }

    pub(super) fn start_replicas(&self, py: Python<'_>) -> PyResult<Vec<LocalPartition>> {
        if self.replicas.load().is_some() {
            return Err(PyRuntimeError::new_err(
                "start_log_dirs has been called before",
            ));
        }
        let settings = self.settings.load_full();
        let sink = self.log_sink();
        let queue = Arc::clone(&self.queue);
        let config = ReplicasConfig {
            layout: settings.layout,
            broker_id: self.broker_id,
            cluster_id: self.cluster_id.clone(),
            log_dirs: self.log_dirs.clone(),
            delete_delay_ms: settings.delete_delay_ms,
            threads_per_dir: settings.threads_per_dir,
            log_settings: settings.log,
            clock: Arc::new(now_ms),
            report: Arc::new(move |text| sink(LogLevel::Error, text)),
            on_all_failed: Arc::new(move |text| queue.fail(text)),
        };
        let (replicas, found) = py
            .detach(|| Replicas::start(config))
            .map_err(|error| log_dir_error(&error))?;
        let replicas = Arc::new(replicas);
        replicas.ingests().set_limits(settings.ingest);
        let background = Background::start(&replicas, settings.intervals, settings.cleaner)?;
        *self.background.lock() = Some(background);
        self.replicas.store(Some(replicas));
        Ok(found.into_iter().map(LocalPartition::from).collect())
    }

    pub(super) fn start_server(
        &self,
        py: Python<'_>,
        listeners: Vec<(String, String, u16, String)>,
    ) -> PyResult<Vec<(String, String, u16)>> {
        if self.server.load().is_some() {
            return Err(PyRuntimeError::new_err(
                "open_listeners has been called before",
            ));
        }
        let settings = self.settings.load_full();
        let hosts: Vec<String> = listeners
            .iter()
            .map(|(_, host, _, _)| host.clone())
            .collect();
        let replicas = self.replicas()?;
        let started = py.detach(|| {
            let configs = listeners
                .into_iter()
                .map(listener_config)
                .collect::<Result<Vec<_>, _>>()?;
            let config = ServerConfig {
                broker_id: self.broker_id,
                listeners: configs,
                threads: settings.threads,
                settings: settings.server.clone(),
                log: self.log_sink(),
            };
            let control = Arc::clone(&self.queue) as Arc<dyn ControlPlane>;
            Server::start(config, replicas, Arc::clone(&self.metadata), control)
                .map_err(|error| ListenerProblem::of_start(&error))
        });
        let server =
            started.map_err(|problem| ListenerError::new_err((problem.code, problem.text)))?;
        let bound = server.addresses().iter().zip(hosts);
        let bound = bound
            .map(|((name, address), host)| (name.to_string(), host, address.port()))
            .collect();
        self.server.store(Some(Arc::new(server)));
        Ok(bound)
    }

    pub(super) fn change_settings(&self, changed: NativeSettings) -> PyResult<()> {
        let changed = Arc::new(changed);
        if let Some(replicas) = self.replicas.load_full() {
            replicas.set_log_settings(changed.log);
            replicas.ingests().set_limits(changed.ingest);
        }
        if let Some(background) = &*self.background.lock() {
            background.set(changed.intervals, changed.cleaner)?;
        }
        if let Some(server) = self.server.load_full() {
            server.set_settings(changed.server.clone());
        }
        self.settings.store(changed);
        Ok(())
    }

    /// R24, from "finish produces" on.
    pub(super) fn stop_all(&self, timeout: Duration) -> Result<(), String> {
        let start = Instant::now();
        // Clients whose requests nobody answers must not take the time that the disks need.
        let clients_deadline = start + timeout / 2;
        let mut stopped = self.stopping.lock();
        if std::mem::replace(&mut *stopped, true) {
            return Ok(());
        }
        if let Some(server) = self.server.load_full() {
            server.shutdown(clients_deadline);
        }
        self.queue.close();
        if let Some(background) = self.background.lock().take() {
            background.stop();
        }
        // The last owners of the logs and of the directories' locks go with this scope.
        drop(self.server.swap(None));
        match self.replicas.swap(None) {
            Some(replicas) => replicas.shutdown(timeout.saturating_sub(start.elapsed())),
            None => Ok(()),
        }
    }
}
