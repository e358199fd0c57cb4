//! A client, and a server for a temporary directory, over an in-memory transport.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use clap::Parser as _;
use filesystem_server::options::Options;
use filesystem_server::server::Server;
use mcp_roots_guard::{Access, Boundary, Guard};
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
    ContentBlock, Implementation, ProgressNotificationParam,
};
use rmcp::service::{
    NotificationContext, PeerRequestOptions, RequestContext, RequestHandle, RoleClient,
    RunningService, ServiceExt as _,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::tree::{link, symlinks_are_visible, uri};

/// A client with or without roots that records progress notifications.
#[derive(Clone, Default)]
pub(crate) struct Client {
    pub(crate) roots: Option<Arc<Mutex<Vec<String>>>>,
    pub(crate) asked: Arc<AtomicU32>,
    pub(crate) progress: Arc<Mutex<Vec<f64>>>,
    pub(crate) told: Arc<tokio::sync::Notify>,
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        if self.roots.is_some() {
            capabilities =
                serde_json::from_value(json!({ "roots": { "listChanged": true } })).unwrap();
        }
        ClientConfig::new(capabilities, Implementation::new("test", "0"))
    }

    #[expect(deprecated)]
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<rmcp::model::ListRootsResult, rmcp::ErrorData> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let uris = self.roots.as_ref().unwrap().lock().unwrap().clone();
        let roots: Vec<Value> = uris.into_iter().map(|uri| json!({ "uri": uri })).collect();
        Ok(serde_json::from_value(json!({ "roots": roots })).unwrap())
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.progress.lock().unwrap().push(params.progress);
        self.told.notify_one();
    }
}

/// A server for a directory, and its client.
pub(crate) struct Served {
    pub(crate) directory: PathBuf,
    /// A directory that is not allowed, next to `directory`.
    pub(crate) outside: PathBuf,
    pub(crate) client: RunningService<RoleClient, Client>,
    _keep: [TempDir; 2],
}

impl Served {
    pub(crate) async fn new() -> Self {
        Self::to(Client::default(), Access::ReadWrite).await
    }

    pub(crate) async fn to(client: Client, access: Access) -> Self {
        Self::with(client, |directory, _| {
            Guard::new(Boundary::builder().directory(directory, access).build().unwrap())
        })
        .await
    }

    /// Configures the server by command-line arguments, in which `$D` stands for the directory and
    /// `$O` for the one outside.
    pub(crate) async fn configured(client: Client, arguments: &[&str]) -> Self {
        Self::with(client, |directory, outside| {
            let argument = |argument: &&str| {
                let argument = argument.replace("$D", directory.to_str().unwrap());
                argument.replace("$O", outside.to_str().unwrap())
            };
            let arguments = arguments.iter().map(argument);
            let options =
                Options::try_parse_from(["filesystem-server".into()].into_iter().chain(arguments));
            options.unwrap().guard().unwrap()
        })
        .await
    }

    /// Uses the guard that `guard` creates for the directory and the one outside. A client with
    /// roots lists the directory.
    async fn with(client: Client, guard: impl FnOnce(&Path, &Path) -> Guard) -> Self {
        let keep = [(); 2].map(|()| tempfile::Builder::new().prefix("guard-").tempdir().unwrap());
        let [directory, outside] =
            keep.each_ref().map(|keep| dunce::canonicalize(keep.path()).unwrap());
        fs::write(outside.join("secret"), "secret").unwrap();
        if let Some(roots) = &client.roots {
            roots.lock().unwrap().push(uri(&directory));
        }
        let guard = guard(&directory, &outside);
        let (near, far) = tokio::io::duplex(1 << 16);
        let server = Server::new(guard.clone());
        tokio::spawn(async move { server.serve(guard.wrap(far)).await.unwrap().waiting().await });
        Self { directory, outside, client: client.serve(near).await.unwrap(), _keep: keep }
    }

    /// Replaces the client's list of roots.
    pub(crate) async fn list(&self, uris: impl IntoIterator<Item = String>) {
        *self.client.service().roots.as_ref().unwrap().lock().unwrap() = uris.into_iter().collect();
        self.client.notify_roots_list_changed().await.unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub(crate) fn content(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Creates a FIFO, a dangling symlink, and symlinks to a file and a directory outside. Returns
    /// the names of the entries that the system does not support: the FIFO on Windows, and also the
    /// symlinks under Wine.
    pub(crate) fn put_oddities(&self) -> Vec<&'static str> {
        let mut missing = Vec::new();
        #[cfg(unix)]
        assert!(
            std::process::Command::new("mkfifo").arg(self.path("fifo")).status().unwrap().success()
        );
        if cfg!(windows) {
            missing.push("fifo");
        }
        let out = self.outside.join("secret");
        for (name, target) in
            [("dangling", "nowhere".as_ref()), ("out", out.as_ref()), ("outdir", &*self.outside)]
        {
            if symlinks_are_visible() {
                link(target, &self.path(name)).unwrap();
            } else {
                missing.push(name);
            }
        }
        missing
    }

    /// Calls a tool and returns its text. Panics if the call fails, or if the text differs from the
    /// structured content, unless it says that the text is only there.
    pub(crate) async fn ok(&self, tool: &'static str, args: Value) -> String {
        let shown = format!("{tool} {args}");
        let result = self.client.call_tool(params(tool, &args)).await.unwrap();
        let [ContentBlock::Text(text)] = &result.content[..] else { panic!("{shown}: {result:?}") };
        assert_ne!(result.is_error, Some(true), "{shown}: {}", text.text);
        let structured = result.structured_content.unwrap();
        let content = structured["content"].as_str().unwrap().to_owned();
        let notice = format!("{} bytes of text are in structuredContent", content.len());
        assert!(text.text == content || text.text == notice, "{shown}: {}", text.text);
        content
    }

    /// Calls a tool and returns the text of its error. Panics if the call succeeds.
    pub(crate) async fn err(&self, tool: &'static str, args: Value) -> String {
        let shown = format!("{tool} {args}");
        let result = self.client.call_tool(params(tool, &args)).await.unwrap();
        let [ContentBlock::Text(text)] = &result.content[..] else { panic!("{shown}: {result:?}") };
        assert_eq!(result.is_error, Some(true), "{shown}: {}", text.text);
        text.text.clone()
    }

    pub(crate) async fn start(&self, tool: &'static str, args: Value) -> RequestHandle<RoleClient> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params(tool, &args)));
        self.client
            .send_cancellable_request(request, PeerRequestOptions::no_options())
            .await
            .unwrap()
    }
}

pub(crate) fn params(tool: &'static str, args: &Value) -> CallToolRequestParams {
    CallToolRequestParams::new(tool).with_arguments(args.as_object().unwrap().clone())
}
