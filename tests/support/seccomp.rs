//! Makes system calls fail, by seccomp filters.

use std::collections::BTreeMap;

use seccompiler::{SeccompAction, SeccompFilter, TargetArch};

/// Makes the system call with this number fail with this error in the current thread, and in the
/// threads and processes that it starts.
pub(crate) fn block_call(number: i64, error: i32) {
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let error = SeccompAction::Errno(error.try_into().unwrap());
    let rules = BTreeMap::from([(number, Vec::new())]);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, error, arch).unwrap();
    let program: seccompiler::BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}
