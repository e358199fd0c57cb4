//! Serves over stdio, or over streamable HTTP.

use std::process::ExitCode;

use clap::Parser as _;
use filesystem_server::http::serve_http;
use filesystem_server::options::Options;
use filesystem_server::server::Server;
use mcp_roots_guard::{Confinement, Guard};
use rmcp::service::ServiceExt as _;
use tokio::net::TcpListener;

fn main() -> ExitCode {
    let log = tracing_subscriber::EnvFilter::from_default_env();
    tracing_subscriber::fmt().with_env_filter(log).with_writer(std::io::stderr).init();
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("filesystem-server: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Confined before the runtime has threads, some of which would not be.
fn run(options: &Options) -> Result<(), Box<dyn std::error::Error>> {
    let guard = options.guard()?;
    if options.confine {
        eprintln!("filesystem-server: {}", guard.confine_process(&Confinement::new())?);
    }
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(serve(options, guard))
}

async fn serve(options: &Options, guard: Guard) -> Result<(), Box<dyn std::error::Error>> {
    #[cfg(unix)]
    survive_large_writes()?;
    if let Some(address) = options.http {
        let listener = TcpListener::bind(address).await?;
        eprintln!("filesystem-server: http://{}/mcp", listener.local_addr()?);
        let stop = async {
            interrupted().await;
            // Whoever asks again does not want to wait for what is in flight.
            tokio::spawn(async {
                interrupted().await;
                std::process::exit(1);
            });
        };
        return Ok(serve_http(listener, Server::new(guard), options.limits(), stop).await?);
    }
    // One client, always the same: in the stateless era, what it told in one request counts for a while.
    let transport = guard.wrap(rmcp::transport::stdio()).one_client();
    Server::new(guard).serve(transport).await?.waiting().await?;
    Ok(())
}

/// A write beyond the process's limit on the size of files (`RLIMIT_FSIZE`, setrlimit(2)) is an error
/// for its caller (`EFBIG`), and not the end of the process: a signal with a handler ends nobody.
#[cfg(unix)]
fn survive_large_writes() -> std::io::Result<()> {
    let signal = rustix::process::Signal::XFSZ.as_raw();
    // The handler stays when this is dropped.
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(signal)).map(drop)
}

/// Until somebody wants this process to end: at a terminal, or who runs it as a service.
async fn interrupted() {
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated() => {}
    }
}

#[cfg(unix)]
async fn terminated() {
    match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        Ok(mut terminated) => {
            terminated.recv().await;
        }
        Err(_) => std::future::pending().await,
    }
}

/// Elsewhere nobody is asked to end but at a terminal.
#[cfg(not(unix))]
async fn terminated() {
    std::future::pending::<()>().await;
}
