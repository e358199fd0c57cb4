//! Obtains a root list from a client: [`fetch_list`] collects the pages of a [`RootsSource`], up to
//! the limits of bytes, entries and pages.

use std::collections::HashSet;
use std::future::Future;

use guarded_fs::Result;

use crate::limits::{ROOT_LIST_BYTES, ROOT_LIST_PAGES};
use crate::session::errors::{
    cursor_too_large, repeated_cursor, roots_failed, roots_unsupported, too_many_pages,
};
use crate::wire::ListRootsResult;

/// The result of a request for a root list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RootsResponse {
    /// A list, or one page of it.
    List(ListRootsResult),
    /// The client does not support the request. The call is refused with
    /// [`ROOTS_UNSUPPORTED`](crate::kinds::ROOTS_UNSUPPORTED), whatever the
    /// [`ClientRoots`](crate::ClientRoots): a client that declares roots and then withholds them
    /// must not gain access in that way.
    Unsupported,
    /// The request failed, or the response is not a root list. The text is for the operator's log.
    Failed(String),
}

/// Requests a root list, within the request that needs it. Closures implement this trait: see the
/// [crate's example](crate).
///
/// A source is called only if the roots must be requested, and more than once if the list has
/// several pages or changes meanwhile, or if an earlier caller stopped waiting. It is called within
/// the client's request, because the protocol allows a server to send a request only then
/// (SEP-2260). It needs no timeout of its own, may be dropped at any await point, and must not
/// block its thread, because the time limit cannot interrupt it then.
///
/// The request must be sent within `ask`, not earlier, because a response to an earlier request may
/// predate a change. For a list that came with a request, use
/// [`Session::roots_from_list`](crate::Session::roots_from_list).
pub trait RootsSource: Send {
    /// Requests the page at `cursor`, the `nextCursor` of the previous page, or the first page.
    fn ask(&mut self, cursor: Option<String>) -> impl Future<Output = RootsResponse> + Send;
}

impl<F, A> RootsSource for F
where
    F: FnMut(Option<String>) -> A + Send,
    A: Future<Output = RootsResponse> + Send,
{
    fn ask(&mut self, cursor: Option<String>) -> impl Future<Output = RootsResponse> + Send {
        self(cursor)
    }
}

impl RootsResponse {
    /// Converts a `roots/list` result into a list, or into [`Failed`](Self::Failed) if it is not
    /// one.
    #[must_use]
    pub fn from_result(result: serde_json::Value) -> Self {
        serde_json::from_value(result)
            .map_or_else(|error| Self::Failed(error.to_string()), Self::List)
    }

    pub(crate) fn into_list(self) -> Result<ListRootsResult> {
        match self {
            Self::List(list) => Ok(list),
            Self::Unsupported => Err(roots_unsupported()),
            Self::Failed(why) => Err(roots_failed(&why)),
        }
    }
}

/// Requests all pages, one after the other. Also returns their number.
pub(crate) async fn fetch_list(source: &mut impl RootsSource) -> Result<(ListRootsResult, usize)> {
    let mut list = ListRootsResult::default();
    let mut cursors = HashSet::new();
    let mut cursor: Option<String> = None;
    for pages in 1..=ROOT_LIST_PAGES {
        let page = source.ask(cursor.take()).await.into_list()?;
        list.roots.extend(page.roots);
        list.ensure_bounded()?;
        let Some(next) = page.next_cursor else {
            list.roots.shrink_to_fit();
            return Ok((list, pages));
        };
        if next.len() > ROOT_LIST_BYTES / ROOT_LIST_PAGES {
            return Err(cursor_too_large());
        }
        if !cursors.insert(next.clone()) {
            return Err(repeated_cursor());
        }
        cursor = Some(next);
    }
    // Defense: A list that has more pages than the limit is refused.
    Err(too_many_pages())
}
