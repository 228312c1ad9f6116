//! A broken invariant of our own stops the process (ARCHITECTURE.md, invariant 10): a data thread that died alone
//! would leave its connections hanging and, worse, what it promised undone.

use std::sync::Once;

static INSTALLED: Once = Once::new();

/// From now on a panic on any thread prints its message and aborts. Installed by the first `NativeBroker`: a process
/// that only uses the codec keeps its own ways.
pub(crate) fn abort_on_panic() {
    INSTALLED.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            print(panic);
            eprintln!("pybroker: a broken invariant, see above; stopping at once (the log recovers at the next start)");
            std::process::abort();
        }));
    });
}
