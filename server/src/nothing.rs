//! Clients that can access nothing: why, and what can be done.

use mcp_roots_guard::{Error, ErrorKind, Roots, WhyNone};

/// Refuses a request if no directory is in force. The model reads why and what helps.
///
/// # Errors
///
/// `nothing_in_force`, with a sentence for each reason.
pub(crate) fn ensure_any(roots: &Roots) -> Result<(), Error> {
    // Directories that are always in force can be served whatever the client listed.
    let Some(why) = roots.why_none().filter(|_| roots.iter().len() == 0) else { return Ok(()) };
    let text = match why {
        WhyNone::NoneListed => {
            "nothing can be accessed, because the client declared roots and listed none: open a \
             folder in the client, or start the server with directories and --empty-list allow, \
             which serves them then"
        }
        WhyNone::NoneAllowed => {
            "nothing can be accessed, because none of the roots that the client listed can be \
             served: open a folder inside the server's directories, or start the server with the \
             folder"
        }
        _ => "nothing can be accessed, because none of the server's directories is there",
    };
    let refused = Error::new(ErrorKind::Other(NOTHING_IN_FORCE), NOTHING_IN_FORCE, text);
    Err(refused.logged(roots))
}

/// The kind and the code of the refusal.
pub(crate) const NOTHING_IN_FORCE: &str = "nothing_in_force";
