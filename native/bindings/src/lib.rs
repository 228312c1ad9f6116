//! The Python face of the native core: convert, let go of the GIL, map errors; no decisions.

mod codec;
mod uuid;

/// The extension module `pybroker._native`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::codec::{
        CodecError, api_table, decode, decode_data, decode_response, encode, encode_request,
        error_code_table, message_class, message_names, message_schema,
    };
    #[pymodule_export]
    use crate::uuid::Uuid;
}
