//! The number of threads of this process.

#[cfg(target_os = "linux")]
use std::fs::File;

/// Counts the threads, also after the kernel has confined the process.
#[derive(Debug)]
pub struct Threads {
    /// `/proc/self/status` (proc(5)). A confined process can read it only if it opened it before.
    #[cfg(target_os = "linux")]
    status: Option<File>,
}

impl Threads {
    /// Call this before the process is confined.
    #[must_use]
    pub fn open() -> Self {
        #[cfg_attr(
            target_os = "linux",
            expect(clippy::disallowed_methods, reason = "the process's own state")
        )]
        Self {
            #[cfg(target_os = "linux")]
            status: File::open("/proc/self/status").ok(),
        }
    }

    /// The number of threads now, or `None` if the system does not say.
    #[cfg(target_os = "linux")]
    pub(crate) fn count(&self) -> Option<u64> {
        let mut text = [0; 8 << 10];
        let length =
            std::os::unix::fs::FileExt::read_at(self.status.as_ref()?, &mut text, 0).ok()?;
        let text = String::from_utf8_lossy(text.get(..length)?).into_owned();
        text.lines().find_map(|line| line.strip_prefix("Threads:"))?.trim().parse().ok()
    }

    /// Only Linux says.
    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unused_self, reason = "it has the signature of the other one")]
    pub(crate) const fn count(&self) -> Option<u64> {
        None
    }
}
