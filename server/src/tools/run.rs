//! The tool `run`, which the option `--run PROGRAM` enables. The program is confined to the roots
//! in force.

use std::fmt::Write as _;
use std::time::Duration;

use mcp_roots_guard::rmcp::{HandlerError, RequestRoots};
use mcp_roots_guard::{ChildCommand, ChildOutput};
use rmcp::handler::server::wrapper::Parameters;
use rmcp::{schemars, tool, tool_router};

use super::call::{ANSWER, Call, ToolResult};
use crate::server::Server;

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Run {
    /// One of the programs that the server allows.
    program: String,
    /// The program's arguments. No shell interprets them.
    #[serde(default)]
    arguments: Vec<String>,
    /// The working directory: a path, or a `file:` URI.
    path: String,
    /// How many seconds the program may run, up to 600. The default is 60.
    timeout_seconds: Option<u16>,
}

#[tool_router(router = run_tools, vis = "pub(super)")]
impl Server {
    #[tool(
        title = "Run Program",
        description = "Runs one of the programs that the server allows, in a directory. The \
                       program can use only the allowed directories and the system's programs and \
                       libraries, and has no network. Returns its exit status and its output.",
        annotations(read_only_hint = false, destructive_hint = true)
    )]
    async fn run(&self, Parameters(args): Parameters<Run>, call: Call) -> ToolResult {
        let programs = self.programs.clone();
        call.asynchronous(async move |roots| {
            let Run { program, arguments, path, timeout_seconds } = args;
            if !programs.run.contains(&program) {
                let allowed = programs.run.join(", ");
                return Err(HandlerError::new(format!(
                    "{program:?} is not one of the allowed programs: {allowed}"
                )));
            }
            let time = timeout_seconds.unwrap_or(60);
            if !(1..=600).contains(&time) {
                return Err(HandlerError::new("timeoutSeconds must be from 1 to 600"));
            }
            let prepare = |roots: RequestRoots| {
                let directory = roots.check(path)?;
                Ok(ChildCommand::new(&directory, program)?.args(arguments))
            };
            let program = roots
                .run(prepare)
                .await?
                .confined(programs.confinement().allow_programs_in_roots())
                .time_limit(Duration::from_secs(time.into()))
                .output_limit(ANSWER);
            Ok(described(&program.output_async().await?))
        })
        .await
    }
}

fn described(output: &ChildOutput) -> String {
    let mut text = output.exit_reason().to_string();
    for (name, bytes) in [("stdout", output.stdout()), ("stderr", output.stderr())] {
        if !bytes.is_empty() {
            let _ = write!(text, "\n{name}:\n{}", String::from_utf8_lossy(bytes));
        }
    }
    text
}
