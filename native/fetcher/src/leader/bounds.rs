//! Start and end offsets of the leader's logs, for partitions whose next offset the leader does not have.

use pybroker_model::TopicIdPartition;
use pybroker_protocol::ApiKey;
use pybroker_replica::FetchFrom;

use super::{Fetcher, Stop};
use crate::following::Order;
use crate::requests::{self, EARLIEST, LATEST, OffsetLookups};

impl Fetcher {
    /// Fetch the bounds of out-of-range partitions, and restart their logs at the leader's log start.
    pub(super) fn ask_bounds(&mut self) -> Result<(), Stop> {
        let mut tips = std::mem::take(&mut self.out_of_range);
        tips.sort_unstable();
        tips.dedup();
        let asked: Vec<(TopicIdPartition, FetchFrom)> = tips
            .into_iter()
            .filter_map(|tip| Some((tip, self.followed.get(&tip)?.out_of_range()?)))
            .collect();
        if asked.is_empty() {
            return Ok(());
        }
        let starts = self.list(&asked, EARLIEST)?;
        let ends = self.list(&asked, LATEST)?;
        let replicas = self.shared.replicas.upgrade().ok_or(Stop::NoReplicas)?;
        let (now, backoff) = (self.shared.clock.now(), self.shared.settings.backoff);
        for (tip, _) in asked {
            let Some(following) = self.followed.get_mut(&tip) else {
                continue;
            };
            let (start, end) = (starts.get(&tip), ends.get(&tip));
            let (Some(Ok(start)), Some(Ok(end))) = (start, end) else {
                following.failed(now, backoff);
                self.hold_back(tip);
                continue;
            };
            match following.told_bounds((*start, *end), now, backoff) {
                Order::StartOver(from, offset) => self.start_over(&replicas, tip, from, offset),
                _ => self.hold_back(tip),
            }
        }
        Ok(())
    }

    fn list(
        &mut self,
        asked: &[(TopicIdPartition, FetchFrom)],
        timestamp: i64,
    ) -> Result<OffsetLookups, Stop> {
        let (version, body) =
            requests::list_offsets(self.shared.broker_id, asked, &self.names, timestamp);
        let open = self.link.get()?;
        let answer = open
            .connection
            .call(ApiKey::ListOffsets.code(), version, &body)?;
        let address = open.connection.address();
        let listed = requests::decode_list_offsets(&answer, &self.names);
        Ok(listed.map_err(|error| pybroker_client::Error::decode(address, error))?)
    }
}
