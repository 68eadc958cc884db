//! Tests plugins that a real daemon runs repeatedly: they must leave no process and no open file behind, see nothing of the
//! environment of the daemon, and a failed run must be a typed error.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use vic::agent::{Bounds, CommandLine, Override};
use vic::client::{AssistWork, Client};
use vic::error::{Error, ErrorCode};

use crate::support::harness::World;
use crate::support::long_tests::check_within_time;
use crate::support::long_tests::figure;
use crate::support::long_tests::size_from_env;

/// Environment variables of the daemon that a plugin must not see.
const SECRETS: [(&str, &str); 3] =
    [("VIC_OPENAI_API_KEY", "s3cr3t-key"), ("GITHUB_TOKEN", "hunter2"), ("AWS_SECRET_ACCESS_KEY", "abc/def+ghi")];

/// A plugin with a behavior per argument. It records its environment and its open files for [`PluginWorld::check_secrecy`].
const SCRIPT: &str = r#"#!/bin/sh
env > "$0.env"
ls -l /proc/self/fd > "$0.files"
good='{"axql": "select ?x where ?x is Node"}'
case $1 in
  good) echo "$good" ;;
  strays) sleep 1000 & setsid sleep 1000 & (setsid sh -c 'sleep 1000 & sleep 1000' &); echo "$good" ;;
  hang) trap '' TERM; while :; do sleep 1000; done ;;
  flood) yes ;;
  die) kill -9 $$ ;;
  half) printf '{"axql": "sel' ;;
  empty) echo '{}' ;;
  other) echo '{"protocol": "other_v1", "reply": "hello"}' ;;
esac
"#;

const BEHAVIORS: [&str; 8] = ["good", "flood", "die", "half", "empty", "other", "strays", "hang"];

/// Maximum time after which no process of a plugin may remain.
const CLEANUP_LIMIT: Duration = Duration::from_secs(1);

/// Time limit of the agent run in which the plugin hangs.
const TIME_LIMIT: Duration = Duration::from_secs(2);

struct PluginWorld {
    world: World,
    folder: TempDir,
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl PluginWorld {
    fn new() -> PluginWorld {
        let world = SECRETS
            .into_iter()
            .fold(World::new().with("VIC_WATCH", "0"), |world, (name, value)| world.with(name, value));
        let world = world.start();
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("plugin");
        std::fs::write(&script, SCRIPT).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(Client::connect(&world.config())).unwrap();
        PluginWorld { world, folder, client, runtime }
    }

    /// Runs the plugin with this behavior. Returns the result of the question.
    fn run(&self, kind: &str) -> Result<Value, Error> {
        let command =
            CommandLine { program: "./plugin".into(), args: vec![kind.into()], folder: self.folder.path().into() };
        let over = Override { command: Some(command), ..Override::default() };
        let question = "find nodes".to_string();
        let work = match kind {
            "hang" => {
                let bounds = Bounds { time: TIME_LIMIT, ..Bounds::default() };
                AssistWork::Agent { question, bounds, prefetch: false }
            }
            _ => AssistWork::Ask(question),
        };
        self.runtime.block_on(self.client.assist(work, over))
    }

    fn check(&self, kind: &str) {
        let ended = self.run(kind);
        let expected = match kind {
            "good" | "strays" => {
                assert_eq!(ended.unwrap()["results"]["rows"], json!([]));
                return;
            }
            "hang" => {
                let ended = ended.unwrap();
                assert!(ended["ended"] == "time" || ended["ended"] == "failed", "{ended:#}");
                return;
            }
            "flood" => ErrorCode::ResourceExhausted,
            _ => ErrorCode::FailedPrecondition,
        };
        let error = ended.unwrap_err();
        assert_eq!(error.code, expected, "{kind}: {error}");
    }

    /// Asserts that the plugin has seen no secret of the daemon's environment and no open file of the daemon.
    fn check_secrecy(&self) {
        let told = |name: &str| std::fs::read_to_string(self.folder.path().join(name)).unwrap();
        let (environment, files) = (told("plugin.env"), told("plugin.files"));
        for (name, value) in SECRETS {
            assert!(!environment.contains(name) && !environment.contains(value), "{environment}");
        }
        assert!(environment.contains("PATH=") && !environment.contains("VIC_DATA_DIR"), "{environment}");
        // Four are expected: the standard streams, and the descriptor with which `ls` reads the folder.
        assert!(files.lines().filter(|it| it.contains("->")).count() <= 4, "{files}");
    }

    /// Returns the open files of the daemon, sorted. Skips those in the data directory, because concurrent questions open a
    /// second database connection, with or without plugins.
    fn open_files(&self) -> Vec<String> {
        let open = std::fs::read_dir(format!("/proc/{}/fd", self.world.pid())).unwrap().flatten();
        let targets = open.filter_map(|it| std::fs::read_link(it.path()).ok());
        let others = targets.filter(|it| !it.starts_with(self.world.data()));
        let mut others: Vec<String> = others.map(|it| it.display().to_string()).collect();
        others.sort();
        others
    }

    /// Returns the zombie children of the daemon, and the running processes that were started in the folder of the plugins.
    fn remaining_processes(&self) -> Vec<String> {
        let daemon = self.world.pid().to_string();
        let of = |path: &Path| {
            let read = |name: &str| std::fs::read(path.join(name)).unwrap_or_default();
            let stat = String::from_utf8_lossy(&read("stat")).into_owned();
            let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |it| it.1).split_whitespace().collect();
            let is_zombie = fields.first() == Some(&"Z") && fields.get(1) == Some(&daemon.as_str());
            let about = String::from_utf8_lossy(&[read("cmdline"), read("environ")].concat()).replace('\0', " ");
            let is_ours = about.contains(self.folder.path().to_str().unwrap());
            (is_zombie || is_ours).then_some(format!("{stat}{about}"))
        };
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let numbered = processes.filter(|it| it.file_name().to_string_lossy().parse::<u32>().is_ok());
        numbered.filter_map(|it| of(&it.path())).collect()
    }
}

// Case E10
#[test]
fn shell_metacharacters_in_arguments_are_passed_verbatim() {
    let plugins = PluginWorld::new();
    let folder = plugins.folder.path();
    let script = "#!/bin/sh\nfor it in \"$@\"; do printf '%s\\0' \"$it\"; done > \"$0.args\"\necho '{\"axql\": \"select ?x where ?x is Node\"}'\n";
    let named = folder.join("print");
    std::fs::write(&named, script).unwrap();
    std::fs::set_permissions(&named, std::fs::Permissions::from_mode(0o755)).unwrap();
    let run = |args: Vec<String>| {
        let command = CommandLine { program: "./print".into(), args, folder: folder.into() };
        let over = Override { command: Some(command), ..Override::default() };
        plugins.runtime.block_on(plugins.client.assist(AssistWork::Ask("find nodes".into()), over))
    };
    let mut odd = [
        "; touch p",
        "$(touch p)",
        "`touch p`",
        "a\nb",
        "--upload-pack=touch p",
        "-o/etc/x",
        "@file",
        "*",
        "?",
        "~",
        "~root",
        "",
        "--",
        "-",
        "%s",
        "\\",
        "\u{202e}",
        "| tee p",
        "&& touch p",
    ]
    .into_iter()
    .flat_map(|it| [it.to_string(), format!("word {it}"), format!("\"{it}\""), format!("'{it}'")])
    .collect::<Vec<String>>();
    odd.extend([&"x".repeat(100_000), "--config=p", "${HOME}", "!!"].map(String::from));
    assert_eq!(odd.len(), 80);
    run(odd.clone()).unwrap();
    let got = std::fs::read_to_string(folder.join("print.args")).unwrap();
    assert_eq!(got.split_terminator('\0').collect::<Vec<_>>(), odd);
    for wrong in ["a\0b".to_string(), "x".repeat(2 << 20)] {
        let error = run(vec![wrong]).unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidArgument, "{error:?}");
    }
    assert!(!folder.join("p").exists() && !plugins.world.files().join("p").exists());
}

// Case E11
#[test]
fn retargeted_plugin_link_is_refused() {
    let plugins = PluginWorld::new();
    let (folder, world) = (plugins.folder.path(), &plugins.world);
    for name in ["first", "second"] {
        let script = format!(
            "#!/bin/sh\ntouch \"{}/{name}.ran\"\necho '{{\"axql\": \"select ?x where ?x is Node\"}}'\n",
            folder.display()
        );
        std::fs::write(folder.join(name), script).unwrap();
        std::fs::set_permissions(folder.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let link = folder.join("chosen");
    symlink(folder.join("first"), &link).unwrap();
    world.ok(&["llm", "use", "command", link.to_str().unwrap()]);
    world.ok(&["llm", "ask", "find nodes"]);
    assert!(folder.join("first.ran").exists());
    std::fs::remove_file(&link).unwrap();
    symlink(folder.join("second"), &link).unwrap();
    let (code, said) = world.fails(&["llm", "ask", "find nodes"]);
    assert!(code == 7 && said.contains("not the program that was chosen"), "{code}: {said}");
    assert!(!folder.join("second.ran").exists());
}

/// Runs every behavior in turn and checks that nothing remains. Returns the longest run of a hanging plugin.
fn run_repeatedly(runs: u64) -> Duration {
    let plugins = PluginWorld::new();
    // Runs each behavior once before the count, because the daemon opens some files at their first use.
    BEHAVIORS.iter().for_each(|kind| plugins.check(kind));
    let before = plugins.open_files();
    let (mut longest, begun) = (Duration::ZERO, Instant::now());
    for number in 0..runs {
        let kind = BEHAVIORS[number as usize % BEHAVIORS.len()];
        let started = Instant::now();
        plugins.check(kind);
        if kind == "hang" {
            longest = longest.max(started.elapsed());
        }
        plugins.check_secrecy();
    }
    plugins.world.wait_until("no process of a plugin remains", Duration::from_secs(20), |_| {
        plugins.remaining_processes().is_empty()
    });
    let more = || plugins.open_files().len() > before.len();
    let waited = Instant::now();
    while more() && waited.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(!more(), "open before: {before:#?}\nopen now: {:#?}", plugins.open_files());
    figure("plugin runs without a zombie, a secret or an open file", runs);
    figure("a plugin run on average", format!("{:.0?}", begun.elapsed() / u32::try_from(runs).unwrap()));
    longest
}

// Cases E5, E12
#[test]
fn plugins_leave_no_process_and_see_no_secret() {
    run_repeatedly(30);
}

// Case E12
#[test]
#[ignore = "takes minutes: see tests/it/support/long_tests.rs"]
fn torture_plugins() {
    let longest = run_repeatedly(size_from_env("VIC_TORTURE_PLUGINS", 1_000));
    check_within_time(
        "a plugin that hangs is gone after its time, at the longest",
        longest.saturating_sub(TIME_LIMIT),
        CLEANUP_LIMIT,
    );
}
