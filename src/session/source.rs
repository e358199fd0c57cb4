//! Where a root list comes from.
//!
//! Goes in: a [`RootsSource`], which asks a client, or looks into what a client has sent already. Comes out: the whole list, of all its
//! pages, or why there is none. What is true after: the list is within its bounds, whatever the client answers; and a client that
//! goes on for ever is stopped.

use std::collections::HashSet;
use std::future::Future;

use crate::error::{Code, Error, Result};
use crate::limits::{FAILURE_CHARS, ROOT_LIST_BYTES, ROOT_LIST_PAGES};
use crate::wire::ListRootsResult;

/// What asking for a root list came to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum RootsResponse {
    /// A list, or one page of it.
    List(ListRootsResult),
    /// The client has no roots to tell: a refusal,
    /// [`RootsUnsupported`](crate::ErrorKind::RootsUnsupported).
    ///
    /// It opens nothing. What [`WithoutClientRoots`](crate::WithoutClientRoots) opens is for a client that declared no roots when its
    /// session began; that one is never asked. One that declares them and then does not tell must not gain by that.
    Unsupported,
    /// There was an error, or something that is no root list; the text is for the operator's log.
    Failed(String),
}

/// Asks for a root list, within the request that needs it.
///
/// It is called only if the roots have to be asked for, and more than once if the list has pages, changes meanwhile, or was not waited
/// for any more. Whoever calls is the request in flight that the protocol wants around a server's request (SEP-2260). It need not keep a
/// time limit of its own, and it may be dropped at any await. A closure is one.
///
/// The question has to be sent within `ask`, and not before: an answer that was asked for earlier may be of before a change. For a list
/// that came with a request there is [`Session::roots_from_list`](crate::Session::roots_from_list). It must not block its thread, or the time limit
/// can not end it.
///
/// ```
/// use mcp_roots_guard::{RootsResponse, ListRootsResult, RootsSource};
/// # #[derive(Clone)] struct Peer;
/// # impl Peer { async fn request(&self, _: &str, _: Option<String>) -> Result<serde_json::Value, String> { Ok(serde_json::json!({"roots": []})) } }
///
/// fn ask(peer: &Peer) -> impl RootsSource {
///     move |cursor: Option<String>| async move {
///         match peer.request("roots/list", cursor).await {
///             Ok(result) => RootsResponse::from_result(result),
///             Err(error) => RootsResponse::Failed(error),
///         }
///     }
/// }
/// # let _ = ask(&Peer);
/// ```
pub trait RootsSource: Send {
    /// Asks for the page at `cursor`: the `nextCursor` of the page before, or none for the first.
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
    /// The answer that a `roots/list` result is: a list, or [`Failed`](Self::Failed) for what is none.
    #[must_use]
    pub fn from_result(result: serde_json::Value) -> Self {
        serde_json::from_value(result)
            .map_or_else(|error| Self::Failed(error.to_string()), Self::List)
    }
}

/// A whole answer.
pub(crate) struct FetchedList {
    pub(crate) list: ListRootsResult,
    pub(crate) pages: usize,
}

/// Requests one page after the other.
pub(crate) async fn fetch_list(source: &mut impl RootsSource) -> Result<FetchedList> {
    let mut list = ListRootsResult::default();
    let mut cursors = HashSet::new();
    let mut cursor: Option<String> = None;
    for pages in 1..=ROOT_LIST_PAGES {
        let page = match source.ask(cursor.take()).await {
            RootsResponse::List(page) => page,
            RootsResponse::Unsupported => return Err(Code::RootsUnsupported.into()),
            RootsResponse::Failed(why) => return Err(fetch_failed(&why)),
        };
        list.roots.extend(page.roots);
        list.is_bounded()?;
        let Some(next) = page.next_cursor else {
            list.roots.shrink_to_fit();
            return Ok(FetchedList { list, pages });
        };
        if next.len() > ROOT_LIST_BYTES / ROOT_LIST_PAGES {
            let limit = ROOT_LIST_BYTES / ROOT_LIST_PAGES;
            return Err(Error::over(
                Code::TooLarge,
                "a cursor of the root list is larger than {} bytes",
                limit,
            ));
        }
        if !cursors.insert(next.clone()) {
            return Err(Code::RepeatedCursor.into());
        }
        cursor = Some(next);
    }
    Err(Code::TooManyPages.into())
}

/// That a client told no list, and why, for the operator.
pub(crate) fn fetch_failed(why: &str) -> Error {
    let why = why.chars().take(FAILURE_CHARS).collect::<String>();
    Error::new(Code::RootsFailed).detail(why)
}
