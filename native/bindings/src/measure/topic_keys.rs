//! Topic ids and topic names, with which Python measures the cost of comparing, sorting and copying them.

use std::hint::black_box;

use pybroker_model::TopicId;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::convert::topic_id;
use crate::uuid::Uuid;

/// Keys of one kind, stored as in the broker: ids inline, names behind a pointer.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct TopicKeys(Keys);

enum Keys {
    Ids(Vec<TopicId>),
    Names(Vec<String>),
}

#[pymethods]
impl TopicKeys {
    #[staticmethod]
    fn of_ids(topic_ids: Vec<Uuid>) -> PyResult<Self> {
        let ids: PyResult<_> = topic_ids.into_iter().map(topic_id).collect();
        Ok(Self(Keys::Ids(ids?)))
    }

    #[staticmethod]
    fn of_names(names: Vec<String>) -> Self {
        Self(Keys::Names(names))
    }

    /// Return how many keys are equal to the other object's key at the same index.
    fn count_equal(&self, other: &Self) -> PyResult<usize> {
        match (&self.0, &other.0) {
            (Keys::Ids(left), Keys::Ids(right)) => Ok(equal(left, right)),
            (Keys::Names(left), Keys::Names(right)) => Ok(equal(left, right)),
            _ => Err(of_two_kinds()),
        }
    }

    /// Return how many keys are less than the other object's key at the same index.
    fn count_less(&self, other: &Self) -> PyResult<usize> {
        match (&self.0, &other.0) {
            (Keys::Ids(left), Keys::Ids(right)) => Ok(less(left, right)),
            (Keys::Names(left), Keys::Names(right)) => Ok(less(left, right)),
            _ => Err(of_two_kinds()),
        }
    }

    /// Sort references to all keys. Return the number of keys.
    fn sorted(&self) -> usize {
        match &self.0 {
            Keys::Ids(ids) => sorted(ids.clone()),
            Keys::Names(names) => sorted(names.iter().map(String::as_str).collect()),
        }
    }

    /// Copy all keys and drop the copies. Return the number of keys.
    fn copied(&self) -> usize {
        match &self.0 {
            Keys::Ids(ids) => black_box(ids.clone()).len(),
            Keys::Names(names) => black_box(names.clone()).len(),
        }
    }
}

fn of_two_kinds() -> PyErr {
    PyValueError::new_err("ids and names do not compare")
}

fn equal<T: PartialEq>(left: &[T], right: &[T]) -> usize {
    left.iter()
        .zip(right)
        .filter(|(left, right)| left == right)
        .count()
}

fn less<T: Ord>(left: &[T], right: &[T]) -> usize {
    left.iter()
        .zip(right)
        .filter(|(left, right)| left < right)
        .count()
}

fn sorted<T: Ord>(mut keys: Vec<T>) -> usize {
    keys.sort_unstable();
    black_box(keys).len()
}
