//! Stands for `http.rs` without the feature `rmcp-http`.

use rmcp::model::Extensions;

pub(super) fn http_extension<T>(_: &Extensions) -> Option<&T> {
    None
}
