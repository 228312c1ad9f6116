//! Random operations against the simplest model: a list of values.
