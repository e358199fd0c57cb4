//! Which list decides a call.

pub(crate) mod calls;
pub(crate) mod schedules;
