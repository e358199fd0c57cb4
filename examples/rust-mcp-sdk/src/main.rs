//! Serves the files below a directory over stdio: `rust-mcp-sdk-server DIRECTORY`.

use mcp_roots_guard::{Access, Boundary, Guard};
use rust_mcp_sdk::{StdioTransport, TransportOptions};
use rust_mcp_sdk_server::{FileTools, ObservedTransport, serve};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args_os().nth(1).ok_or("usage: rust-mcp-sdk-server DIRECTORY")?;
    let boundary = Boundary::builder().directory(directory, Access::ReadOnly).build()?;
    let observer = Guard::new(boundary).observer();
    let transport = StdioTransport::new(TransportOptions::default())?;
    let transport = ObservedTransport::new(transport, observer.clone());
    Ok(serve(transport, FileTools::new(observer)).await?)
}
