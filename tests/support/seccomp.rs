//! Makes system calls fail, by seccomp filters.

use std::collections::BTreeMap;

use seccompiler::{SeccompAction, SeccompFilter, SeccompRule, TargetArch};

/// Makes the system call with this number fail with this error in the current thread, and in the
/// threads and processes that it starts.
pub(crate) fn block_call(number: i64, error: i32) {
    block_calls(number, error, Vec::new());
}

/// Like [`block_call`], for the calls that match one of the rules, or for all if there is none.
pub(crate) fn block_calls(number: i64, error: i32, rules: Vec<SeccompRule>) {
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let error = SeccompAction::Errno(error.try_into().unwrap());
    let rules = BTreeMap::from([(number, rules)]);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, error, arch).unwrap();
    let program: seccompiler::BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}
