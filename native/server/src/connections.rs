//! Listeners, data threads, and the task of each connection.

pub(crate) mod connection;
pub(crate) mod data_threads;
pub(crate) mod listener;
