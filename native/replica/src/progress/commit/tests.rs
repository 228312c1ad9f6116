use std::cell::Cell;
use std::thread;

use super::*;
use crate::{Leader, Role, TopicConfig};

/// A commit whose result stays unknown for this many wake-ups, each of which comes during a poll.
struct WokenMeanwhile {
    times: usize,
    by_another_thread: bool,
}

impl Future for WokenMeanwhile {
    type Output = Result<(), PartitionError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.times == 0 {
            return Poll::Ready(Ok(()));
        }
        self.times -= 1;
        let waker = context.waker().clone();
        if self.by_another_thread {
            // This wake-up completes before the poll does.
            thread::spawn(|| waker.wake()).join().expect("it wakes");
        } else {
            waker.wake();
        }
        Poll::Pending
    }
}

fn counting(told: &Arc<AtomicUsize>) -> impl FnOnce(Result<(), PartitionError>) + Send + 'static {
    let told = Arc::clone(told);
    move |_| {
        told.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn who_is_woken_while_it_looks_looks_once_more() {
    for by_another_thread in [false, true] {
        for times in 0..4 {
            let told = Arc::default();
            let commit = WokenMeanwhile {
                times,
                by_another_thread,
            };
            CommitNotifier::begin(commit, counting(&told));
            assert_eq!(told.load(Ordering::SeqCst), 1, "woken {times} times");
        }
    }
}

fn leading() -> Arc<Progress> {
    let leader = Leader {
        leader_epoch: 1,
        isr: Arc::from([1]),
        replicas: Arc::from([1]),
        version: 0,
        start_offset: 0,
    };
    let config = Arc::new(TopicConfig::default());
    Arc::new(Progress::new(Role::Leader(leader), config, 0))
}

thread_local! {
    static BETWEEN: Cell<Option<Box<dyn FnOnce()>>> = const { Cell::new(None) };
}

/// A hook that runs when a commit has made its first check and is not registered yet.
pub(super) fn between_the_looks() {
    if let Some(happens) = BETWEEN.take() {
        happens();
    }
}

#[test]
fn what_happens_before_it_is_registered_is_not_missed() {
    let decisions: [fn(&Progress); 3] = [
        |progress| {
            progress.high_watermark.raise(1);
        },
        // A role change wakes only waiters that are already registered.
        |progress| progress.step_down(Role::Stopped { deleted: false }),
        |progress| {
            progress.step_down(Role::Offline {
                leader_epoch: 1,
                reason: "its disk failed".into(),
            })
        },
    ];
    for decide in decisions {
        let (progress, told) = (leading(), Arc::default());
        let happens = Arc::clone(&progress);
        BETWEEN.set(Some(Box::new(move || decide(&happens))));
        let decided = Commit::new(Arc::clone(&progress), 0, 0).tell(counting(&told));
        assert_eq!((decided, told.load(Ordering::SeqCst)), (None, 1));
        assert_eq!(progress.high_watermark.waiting(), 0);
    }
}

#[test]
fn what_happens_later_is_told_once() {
    let (progress, told) = (leading(), Arc::default());
    let commit = Commit::new(Arc::clone(&progress), 0, 0);
    assert_eq!(commit.tell(counting(&told)), None);
    assert_eq!(told.load(Ordering::SeqCst), 0);
    // Wake the commit although its result is still unknown; it registers again.
    progress.high_watermark.wake_all();
    assert_eq!(
        (
            told.load(Ordering::SeqCst),
            progress.high_watermark.waiting()
        ),
        (0, 1)
    );
    progress.high_watermark.raise(1);
    progress.high_watermark.raise(2);
    assert_eq!(
        (
            told.load(Ordering::SeqCst),
            progress.high_watermark.waiting()
        ),
        (1, 0)
    );
}
