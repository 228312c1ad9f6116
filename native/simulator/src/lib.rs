//! A simulated world for `pybroker-quorum`: its real state machines on simulated disks, networks and clocks, with all
//! faults that disks, networks and clocks can have, and an oracle that sees all replicas at once. One seed is one run,
//! replayed exactly.
//!
//! [`run_data_path`] simulates the replicas of a partition instead.
//!
//! Not part of the broker. `docs/testing-in-depth.md` describes the simulation and the replay of a seed.

mod actions;
mod calm;
mod checks;
mod client;
mod clock;
mod coverage;
mod data_path;
mod disk;
mod files;
mod metadata_log;
mod network;
mod node;
mod oracle;
mod plan;
mod probes;
mod process;
mod random;
mod run;
mod troubles;
mod world;

pub use coverage::{Coverage, TRANSITIONS};
pub use data_path::{DATA_PATH_STEPS, DataCoverage, PlantedFault, run_data_path};
pub use oracle::Violation;
pub use plan::{Plan, Trouble};
pub use run::{Failure, run, shrink, silence_panics};
