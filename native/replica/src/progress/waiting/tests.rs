use super::*;
use std::sync::atomic::AtomicBool;
use std::task::Wake;
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn counter() -> (Arc<Counter>, Waker) {
    let counter = Arc::new(Counter::default());
    (Arc::clone(&counter), Waker::from(counter))
}

#[test]
fn only_those_satisfied_are_woken_and_only_once() {
    let watched = Arc::new(WatchedOffset::new(0));
    let (near, near_waker) = counter();
    let (far, far_waker) = counter();
    let _near = watched.register(3, &near_waker);
    let _far = watched.register(9, &far_waker);
    assert!(watched.raise(3));
    assert_eq!(
        (near.0.load(SeqCst), far.0.load(SeqCst)),
        (0, 0),
        "3 does not exceed 3"
    );
    watched.raise(4);
    watched.raise(9);
    assert_eq!((near.0.load(SeqCst), far.0.load(SeqCst)), (1, 0));
    watched.raise(10);
    assert_eq!((near.0.load(SeqCst), far.0.load(SeqCst)), (1, 1));
    assert_eq!(watched.waiting(), 0);
}

#[test]
fn a_satisfied_wait_is_not_registered() {
    let watched = Arc::new(WatchedOffset::new(5));
    let (_, waker) = counter();
    assert!(watched.register(4, &waker).is_none());
    assert_eq!(watched.waiting(), 0);
    assert!(!watched.raise(5), "it does not grow");
}

#[test]
fn dropping_a_registration_takes_it_out() {
    let watched = Arc::new(WatchedOffset::new(0));
    let (counter, waker) = counter();
    let first = watched.register(1, &waker);
    let second = watched.register(1, &waker);
    assert_eq!(watched.waiting(), 2);
    drop(first);
    assert_eq!(watched.waiting(), 1);
    drop(second);
    watched.raise(2);
    assert_eq!(counter.0.load(SeqCst), 0);
}

#[test]
fn stopping_wakes_everybody() {
    let watched = Arc::new(WatchedOffset::new(0));
    let (counter, waker) = counter();
    let registration = watched.register(i64::MAX, &waker).expect("waits");
    watched.wake_all();
    assert_eq!(counter.0.load(SeqCst), 1);
    assert!(!registration.update(&waker), "spent");
}

#[test]
fn several_waits_of_one_task_wake_it_once() {
    let watched = Arc::new(WatchedOffset::new(0));
    let (counter, waker) = counter();
    let all: Vec<_> = (0..5)
        .map(|above| watched.register(above, &waker))
        .collect();
    watched.raise(100);
    assert_eq!(counter.0.load(SeqCst), 1);
    drop(all);
}

struct Unpark(Thread, AtomicBool);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.1.store(true, SeqCst);
        self.0.unpark();
    }
}

/// Two publishers raise a value in turns, each step just before the waiters register for it, so that no later step
/// hides a lost wake-up.
fn chase(waiters: i64, steps: i64) {
    const LIMIT: Duration = Duration::from_secs(60);
    let watched = Arc::new(WatchedOffset::new(0));
    // Number of steps that all waiters together have seen.
    let seen_by_all = AtomicI64::new(0);
    let lost = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..waiters {
            scope.spawn(|| {
                let unpark = Arc::new(Unpark(thread::current(), AtomicBool::new(false)));
                let waker = Waker::from(Arc::clone(&unpark));
                for seen in 0..steps {
                    unpark.1.store(false, SeqCst);
                    if let Some(registration) = watched.register(seen, &waker) {
                        // A wake-up sets its mark before it unparks the thread, so the unpark of the previous wake-up
                        // may end this park. So only the time limit reveals a lost wake-up.
                        let limit = Instant::now() + LIMIT;
                        while !unpark.1.load(SeqCst) && !lost.load(SeqCst) {
                            let left = limit.saturating_duration_since(Instant::now());
                            lost.fetch_or(left.is_zero(), SeqCst);
                            thread::park_timeout(left);
                        }
                        drop(registration);
                    }
                    seen_by_all.fetch_add(1, SeqCst);
                }
            });
        }
        for publisher in 0..2 {
            let (watched, seen_by_all, lost) = (&watched, &seen_by_all, &lost);
            scope.spawn(move || {
                for value in (1..=steps).filter(|value| value % 2 == publisher) {
                    while seen_by_all.load(SeqCst) < (value - 1) * waiters && !lost.load(SeqCst) {
                        thread::yield_now();
                    }
                    watched.raise(value);
                }
            });
        }
    });
    assert!(!lost.load(SeqCst), "lost wake-up");
    assert_eq!(watched.waiting(), 0);
}

#[test]
fn no_wake_up_is_lost_under_stress() {
    // If there is only one waiter, only its own count makes the publisher look at the list.
    chase(1, 200_000);
    chase(3, 20_000);
}
