//! Clients that can access nothing: why, and what can be done.

use mcp_roots_guard::{Error, ErrorKind, Roots, WhyNone};

use crate::log::rarely;

/// Refuses a request if no directory is in force. The model reads why, and so does the operator.
///
/// # Errors
///
/// [`OutsideRoots`](ErrorKind::OutsideRoots) with a sentence for each reason.
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
            "nothing can be accessed, because each root that the client listed is outside the \
             server's directories: open a folder inside them, or start the server with the folder"
        }
        WhyNone::Unavailable => {
            "nothing can be accessed, because none of the server's directories is there: create \
             one again, or restart the server with others"
        }
        _ => {
            "nothing can be accessed, because the server was started without directories and the \
             client declared no roots: start the server with a directory"
        }
    };
    rarely(text, format_args!("a client can access nothing: {text}"));
    Err(Error::new(ErrorKind::OutsideRoots, "outside_roots", text))
}
