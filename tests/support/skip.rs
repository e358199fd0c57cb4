//! Says which tests could not run here.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Mutex;

/// Prints once why a test, or a part of it, is not run. Unlike `println!`, writes where the test
/// runner does not capture the output of passing tests.
pub(crate) fn skip(reason: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().unwrap().insert(reason.to_owned()) {
        writeln!(std::io::stderr().lock(), "skipped: {reason}").unwrap();
    }
}
