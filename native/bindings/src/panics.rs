//! A panic aborts the process, because it means a broken invariant (ARCHITECTURE.md, invariant 10). If only a data
//! thread ended, its connections would hang and its pending work would never complete.

use std::sync::Once;

static INSTALLED: Once = Once::new();

/// Make a panic on any thread print its message and abort. The first `NativeBroker` installs this hook; a process that
/// only uses the codec keeps its own panic handling.
pub(crate) fn abort_on_panic() {
    INSTALLED.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            print(panic);
            eprintln!("pybroker: an invariant is broken (see above); stopping at once (the log recovers at the next \
                 start)");
            std::process::abort();
        }));
    });
}
