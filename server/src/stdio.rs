//! The transport over standard input and output.
//!
//! It is rmcp's, with two additions. It ends when the server is told to stop, as at the end of
//! standard input: requests in flight have five seconds to finish. And rmcp drops a message that is
//! too large without a word, so this answers it.

use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rmcp::ErrorData;
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::service::RoleServer;
use rmcp::transport::async_rw::{AsyncRwTransport, DEFAULT_MAX_LINE_LENGTH};
use rmcp::transport::{StdioReader, StdioWriter, Transport, stdio_pipes};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

use crate::http::Message;
use crate::log::rarely;

type SendFuture = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// Standard input and output until a future completes.
#[expect(missing_debug_implementations, reason = "rmcp's transport does not implement it")]
pub struct Stdio {
    inner: AsyncRwTransport<RoleServer, Reader<StdioReader>, StdioWriter>,
    /// The ids of messages that were too large.
    too_large: mpsc::UnboundedReceiver<Option<RequestId>>,
    /// The answer to one of them, which continues if a future of `receive` is dropped.
    sending: Option<SendFuture>,
    stop: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Stdio {
    /// The transport of this process.
    #[must_use]
    pub fn new(stop: impl Future<Output = ()> + Send + 'static) -> Self {
        let ((inner, output), (sender, too_large)) = (stdio_pipes(), mpsc::unbounded_channel());
        let reader = Reader { inner, line: Line::default(), too_large: sender };
        let inner = AsyncRwTransport::new(reader, output);
        Self { inner, too_large, sending: None, stop: Box::pin(stop) }
    }

    fn refuse(&mut self, id: Option<RequestId>) {
        let text = format!("the message is larger than {DEFAULT_MAX_LINE_LENGTH} bytes");
        let answer = ServerJsonRpcMessage::error(ErrorData::invalid_request(text, None), id);
        self.sending = Some(Box::pin(self.inner.send(answer)));
    }
}

impl Transport<RoleServer> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            if let Some(sending) = &mut self.sending {
                // Nothing more is read until the client has received the answer.
                tokio::select! {
                    () = &mut self.stop => return None,
                    _ = sending => self.sending = None,
                }
            }
            let message = tokio::select! {
                biased;
                () = &mut self.stop => return None,
                Some(id) = self.too_large.recv() => {
                    self.refuse(id);
                    continue;
                }
                message = self.inner.receive() => message,
            };
            // The last message may have been too large.
            match self.too_large.try_recv() {
                Ok(id) if message.is_none() => self.refuse(id),
                Ok(_) | Err(_) => return message,
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = io::Result<()>> + Send {
        self.inner.close()
    }
}

/// Reports lines that are too large.
struct Reader<R> {
    inner: R,
    line: Line,
    too_large: mpsc::UnboundedSender<Option<RequestId>>,
}

impl<R: AsyncRead + Unpin> AsyncRead for Reader<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(context, buffer))?;
        for byte in buffer.filled().iter().skip(before) {
            self.line.push(*byte);
            if *byte == b'\n' {
                let line = mem::take(&mut self.line);
                if line.length > DEFAULT_MAX_LINE_LENGTH {
                    // The receiver lives as long as this.
                    let _ = self.too_large.send(line.id.filter(|_| line.is_request));
                } else if line.length > 2 && line.id.is_none() && !line.is_request {
                    rarely("not a message", "a line of standard input is not a JSON-RPC message");
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// What is known of a message before all of it has arrived.
#[derive(Default)]
struct Line {
    length: usize,
    /// The number of objects and lists that have begun and not ended.
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    /// A member of the message, such as `"id": 1`. Incomplete if it is longer than [`MEMBER`].
    member: Vec<u8>,
    id: Option<RequestId>,
    is_request: bool,
}

impl Line {
    fn push(&mut self, byte: u8) {
        self.length += 1;
        if self.depth == 1 && !self.in_text && matches!(byte, b',' | b'}') {
            self.end_member();
        } else if self.depth > 0 && self.member.len() <= MEMBER {
            self.member.push(byte);
        }
        match byte {
            _ if self.is_escaped => self.is_escaped = false,
            b'\\' if self.in_text => self.is_escaped = true,
            b'"' => self.in_text = !self.in_text,
            b'[' | b'{' if !self.in_text => self.depth += 1,
            b']' | b'}' if !self.in_text => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
    }

    fn end_member(&mut self) {
        let member = mem::take(&mut self.member);
        if member.len() > MEMBER {
            return;
        }
        let object = [b"{", &member[..], b"}"].concat();
        if let Ok(Message { id, method, .. }) = serde_json::from_slice(&object) {
            self.id = self.id.take().or(id);
            self.is_request |= method.is_some();
        }
    }
}

/// The maximum length of a member that is looked at: enough for any id or method.
const MEMBER: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_that_of_the_request_itself() {
        let rows = [
            (r#"{"jsonrpc":"2.0","id":1,"method":"m","params":{"id":2}}"#, "1"),
            (r#"{"method":"m","params":{"x":"\",\"id\":2,","y":[{"id":3}]},"id":"tail"}"#, "tail"),
            (r#" { "method" : "m" , "i\u0064" : -4 } "#, "-4"),
            (r#"{"result":{"method":"m"},"id":1}"#, ""),
            (r#"{"method":"m","params":{"id":1}}"#, ""),
            (r#"[{"id":1,"method":"m"}]"#, ""),
            (r#"{"id":{"id":1},"method":"m"}"#, ""),
            (r#""id":1,"method":"m""#, ""),
            ("}}]],,\\\"", ""),
        ];
        for (row, id) in rows {
            let mut line = Line::default();
            row.bytes().for_each(|byte| line.push(byte));
            let found = line.id.filter(|_| line.is_request);
            assert_eq!(found.map(|id| id.to_string()).unwrap_or_default(), id, "{row}");
        }
    }
}
