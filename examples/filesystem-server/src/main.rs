//! Serves over stdio, or over streamable HTTP.

use std::process::ExitCode;

use clap::Parser as _;
use filesystem_server::options::Options;
use filesystem_server::server::{self, Server};
use rmcp::service::ServiceExt as _;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> ExitCode {
    let log = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(log).with_writer(std::io::stderr).init();
    match serve(Options::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("filesystem-server: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(options: Options) -> Result<(), Box<dyn std::error::Error>> {
    let guard = options.guard()?;
    if let Some(address) = options.http {
        let listener = TcpListener::bind(address).await?;
        eprintln!("filesystem-server: http://{}/mcp", listener.local_addr()?);
        axum::serve(listener, server::http(&guard)).with_graceful_shutdown(interrupted()).await?;
        return Ok(());
    }
    // One client, always the same: in the stateless era, what it told in one request counts for a while.
    let transport = guard.wrap(rmcp::transport::stdio()).one_client();
    Server::new(guard).serve(transport).await?.waiting().await?;
    Ok(())
}

async fn interrupted() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
