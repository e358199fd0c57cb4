//! Which list decides a call.

pub(crate) mod calls;
