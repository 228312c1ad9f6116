//! Single functions of the data path for Python: the same code that serves the sockets.

pub(crate) mod batches;
pub(crate) mod hot;
pub(crate) mod partition_index;
pub(crate) mod topic_keys;
mod topic_partitions;

pub(crate) use topic_partitions::TopicPartitions;
