//! Work that may block on a disk, on threads other than the data threads.

pub mod cold_reads;
pub(crate) mod slow_appends;
pub(crate) mod workers;
