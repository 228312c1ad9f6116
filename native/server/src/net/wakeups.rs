//! Wake-ups of connections by other threads, when records are on disk or new records arrive. A flush wakes the data
//! thread only once, even if it wakes many connections. Without this, each connection would write to the thread's event
//! queue.

use std::cell::Cell;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::Mutex;

/// Wake-ups of one data thread.
#[derive(Debug, Default)]
pub(crate) struct Wakeups {
    ready: Mutex<Ready>,
}

#[derive(Debug, Default)]
struct Ready {
    tasks: Vec<Waker>,
    /// Waker of the data thread. The first wake-up uses it; the thread then also handles the wake-ups that follow.
    thread: Option<Waker>,
}

/// Waker of a connection for other threads.
struct ConnectionWaker {
    thread: Arc<Wakeups>,
    task: Waker,
}

thread_local! {
    /// The `Wakeups` of this data thread.
    static THREAD: Cell<*const Wakeups> = const { Cell::new(core::ptr::null()) };
}

impl Wakeups {
    /// Return a waker for `task`, which runs on this data thread, usable from any thread.
    pub(crate) fn waker(self: &Arc<Self>, task: &Waker) -> Waker {
        let waker = ConnectionWaker {
            thread: Arc::clone(self),
            task: task.clone(),
        };
        Waker::from(Arc::new(waker))
    }

    /// Wake connections; runs as long as the thread does.
    pub(crate) async fn serve(self: Arc<Self>) {
        THREAD.set(Arc::as_ptr(&self));
        let mut tasks = Vec::new();
        std::future::poll_fn(|context| self.wake_ready(context, &mut tasks)).await
    }

    /// Wake the ready tasks. `tasks` is empty before and after, and keeps its capacity.
    fn wake_ready(&self, context: &Context<'_>, tasks: &mut Vec<Waker>) -> Poll<()> {
        {
            let mut ready = self.ready.lock();
            core::mem::swap(&mut ready.tasks, tasks);
            if ready.thread.is_none() {
                // The waker of a task does not change.
                ready.thread = Some(context.waker().clone());
            }
        }
        tasks.drain(..).for_each(Waker::wake);
        Poll::Pending
    }

    fn add(&self, task: &Waker) {
        let mut ready = self.ready.lock();
        ready.tasks.push(task.clone());
        if ready.tasks.len() == 1
            && let Some(thread) = &ready.thread
        {
            thread.wake_by_ref();
        }
    }
}

impl Wake for ConnectionWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if THREAD.get() == Arc::as_ptr(&self.thread) {
            self.task.wake_by_ref();
        } else {
            self.thread.add(&self.task);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts wake-ups.
    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Count {
        fn waker(self: &Arc<Self>) -> Waker {
            Waker::from(Arc::clone(self))
        }

        fn get(&self) -> usize {
            self.0.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn other_threads_wake_the_thread_once_for_all_its_connections() {
        let wakeups = Arc::<Wakeups>::default();
        let (thread, first, second) = <(Arc<Count>, Arc<Count>, Arc<Count>)>::default();
        let wakers = [&first, &second].map(|task| wakeups.waker(&task.waker()));
        let serve = || {
            let mut tasks = Vec::new();
            let polled = wakeups.wake_ready(&Context::from_waker(&thread.waker()), &mut tasks);
            assert!(polled.is_pending() && tasks.is_empty());
        };
        wakers[0].wake_by_ref();
        serve();
        assert_eq!(first.get(), 1, "woken before the thread served any");
        for turn in 1..=2 {
            wakers.iter().for_each(Waker::wake_by_ref);
            assert_eq!((thread.get(), second.get()), (turn, turn - 1));
            serve();
            assert_eq!((first.get(), second.get()), (turn + 1, turn));
        }
        serve();
        assert_eq!(
            (first.get(), second.get()),
            (3, 2),
            "nobody was to be woken"
        );
    }

    #[test]
    fn the_thread_itself_wakes_a_connection_at_once() {
        let wakeups = Arc::<Wakeups>::default();
        let (thread, task) = <(Arc<Count>, Arc<Count>)>::default();
        let waker = wakeups.waker(&task.waker());
        let mut serving = Box::pin(Arc::clone(&wakeups).serve());
        let context = &mut Context::from_waker(Waker::noop());
        assert!(serving.as_mut().poll(context).is_pending());
        waker.wake_by_ref();
        assert_eq!((task.get(), thread.get()), (1, 0));
        std::thread::spawn(move || waker.wake())
            .join()
            .expect("ends");
        assert_eq!(task.get(), 1, "it is the thread's turn");
        assert!(serving.as_mut().poll(context).is_pending());
        assert_eq!(task.get(), 2);
    }
}
