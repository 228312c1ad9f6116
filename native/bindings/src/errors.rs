//! Conversion of Rust errors to Kafka error codes and Python exceptions.

use pybroker_model::BatchError;
use pybroker_protocol::ErrorCode;
use pybroker_replica::PartitionError;
use pybroker_server::error_codes::{self, Naming};
use pybroker_storage::StorageError;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;

create_exception!(
    pybroker._native,
    NativeError,
    PyException,
    "Trouble outside the program: (code, sentence)."
);
create_exception!(
    pybroker._native,
    LogDirError,
    NativeError,
    "A log directory is refused at start."
);
create_exception!(
    pybroker._native,
    ListenerError,
    NativeError,
    "A listener cannot be opened."
);

/// Add the attributes of `NativeError`. They are implemented in Python, because with the stable ABI of Python 3.11
/// native code cannot subclass exceptions.
pub(crate) fn add_attributes(py: Python<'_>) -> PyResult<()> {
    let class = py.get_type::<NativeError>();
    class.setattr(
        "code",
        py.eval(c"property(lambda self: self.args[0])", None, None)?,
    )?;
    class.setattr(
        "message",
        py.eval(c"property(lambda self: self.args[1])", None, None)?,
    )?;
    class.setattr(
        "__str__",
        py.eval(c"lambda self: self.args[1]", None, None)?,
    )
}

/// Return a `NativeError`.
pub(crate) fn native_error(code: i16, message: impl std::fmt::Display) -> PyErr {
    NativeError::new_err((code, message.to_string()))
}

/// Return the exception for a log directory that fails the check at start.
pub(crate) fn log_dir_error(error: &StorageError) -> PyErr {
    let text = match error {
        StorageError::Locked { path } => {
            format!(
                "{} is in use by another broker. Stop it, or give this one its own log.dirs",
                path.display()
            )
        }
        StorageError::Foreign {
            path,
            found,
            expected,
        } => {
            // KIP-78 lets experts edit the ids by hand, so the message tells them how.
            let remedy = if found.starts_with("cluster") {
                ". If it is the data of this cluster, run `pybroker cluster adopt-id`"
            } else {
                ""
            };
            format!(
                "{} belongs to {found}, this is {expected}. Point log.dirs to the right directory{remedy}",
                path.display()
            )
        }
        other => format!("no log directory can be used: {other}"),
    };
    LogDirError::new_err((ErrorCode::KAFKA_STORAGE_ERROR.0, text))
}

/// Return the exception for an error of a partition.
pub(crate) fn partition_error(error: &PartitionError) -> PyErr {
    native_error(partition_code(error), error)
}

/// Return the exception for a rejected batch.
pub(crate) fn batch_error(error: &BatchError) -> PyErr {
    native_error(error_codes::of_batch(error).0, error)
}

/// Return the Kafka error code of the server's mapping.
pub(crate) fn partition_code(error: &PartitionError) -> i16 {
    error_codes::of_partition(error, Naming::Name).0
}
