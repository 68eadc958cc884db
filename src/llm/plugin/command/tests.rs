//! Tests with well-behaved and misbehaving plugins, which are shell scripts that vic starts without a shell.

use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use serde_json::{Value, json};

use super::*;
use crate::llm::plugin::{PluginTask, SchemaHints};

/// A plugin script in its own folder, and the command that runs it.
struct Script {
    folder: tempfile::TempDir,
    command: PluginCommand,
}

impl Script {
    fn new(text: &str) -> Script {
        Script::with(text, &[])
    }

    fn with(text: &str, args: &[&str]) -> Script {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plugin");
        write(&path, text);
        let args = args.iter().map(|it| it.to_string()).collect();
        let command = PluginCommand::find("./plugin", args, folder.path()).unwrap();
        Script { folder, command }
    }

    async fn ask(&self) -> Result<PluginResponse> {
        let question = question();
        let limits = PluginLimits { time: Duration::from_secs(2), ..PluginLimits::for_task(&question.task) };
        self.command.ask(&question, PrivacyMode::LocalOnly, limits).await
    }

    fn told(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }
}

fn write(path: &Path, text: &str) {
    // Writes to a temporary file and renames it: a concurrent fork would hold the file open for writing, so that it could
    // not be run.
    let file = tempfile::NamedTempFile::new_in(path.parent().unwrap()).unwrap();
    std::fs::write(file.path(), format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    file.persist(path).unwrap();
}

fn question() -> PluginRequest {
    PluginRequest::new(None, PluginTask::ToQuery { question: "find b".into(), schema: SchemaHints::default() })
}

async fn fails(text: &str, code: ErrorCode, said: &str) -> Script {
    let script = Script::new(text);
    let begun = Instant::now();
    let error = script.ask().await.unwrap_err();
    assert!(error.code == code && error.message.contains(said), "{text}: {:?} {error}", error.code);
    assert!(begun.elapsed() < Duration::from_secs(4), "{text}: took {:?}", begun.elapsed());
    script
}

/// Returns the running processes with the folder in their command line or environment.
fn alive(folder: &Path) -> Vec<String> {
    let folder = folder.to_str().unwrap();
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
        let about = [read("cmdline"), read("environ")].concat();
        if entry.file_name().to_str().unwrap().parse::<u32>().is_ok_and(|it| it != std::process::id())
            && memchr::memmem::find(&about, folder.as_bytes()).is_some()
        {
            found.push(String::from_utf8_lossy(&read("cmdline")).replace('\0', " "));
        }
    }
    found
}

#[tokio::test]
async fn plugin_reads_one_request_and_answers_once() {
    let script = Script::new(r#"cat > request; echo debug >&2; echo '{"axql": "select ?x where ?x is Node"}'"#);
    let response = script.ask().await.unwrap();
    assert_eq!(response.axql.as_deref(), Some("select ?x where ?x is Node"));
    let sent: Value = serde_json::from_str(&script.told("request")).unwrap();
    assert_eq!((&sent["protocol"], &sent["task"]["kind"]), (&json!("axiograph_llm_plugin_v2"), &json!("to_query")));
}

#[tokio::test]
async fn plugin_may_answer_without_reading() {
    let script = Script::new(r#"echo '{"axql": "x"}'"#);
    let question = "find ".repeat(200_000);
    let task = PluginTask::ToQuery { question, schema: SchemaHints::default() };
    let request = PluginRequest::new(None, task);
    script.command.ask(&request, PrivacyMode::LocalOnly, PluginLimits::for_task(&request.task)).await.unwrap();
}

// Case E10
#[tokio::test]
async fn arguments_are_not_interpreted_by_shell() {
    let odd = ["; touch pwned", "$(touch pwned)", "`touch pwned`", "a b", "*", "", "--", "-n", "'\"\\", "| cat", "> x"];
    let print = r#"for it in "$@"; do printf '%s\n' "$it"; done > args; echo '{"axql": "x"}'"#;
    let script = Script::with(print, &odd);
    script.ask().await.unwrap();
    assert_eq!(script.told("args").lines().collect::<Vec<_>>(), odd);
    let files: Vec<_> = script.folder.path().read_dir().unwrap().flatten().map(|it| it.file_name()).collect();
    assert_eq!(files.len(), 2, "{files:?}");
}

// Case E5
#[tokio::test]
async fn environment_is_fixed_and_no_file_is_inherited() {
    let script = Script::new(r#"env > env; ls -l /proc/self/fd > fds; echo '{"axql": "x"}'"#);
    // Makes a file descriptor that the standard library does not close in child processes.
    let ours = std::fs::File::open("/proc/self/status").unwrap();
    rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::empty()).unwrap();
    script.ask().await.unwrap();
    let allowed = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "OLLAMA_HOST"];
    // Variables that the shell or vic's run sets itself.
    let shells = ["PWD", "OLDPWD", "SHLVL", "_", super::super::process::MARK_VARIABLE];
    for line in script.told("env").lines() {
        let name = line.split('=').next().unwrap();
        assert!(allowed.contains(&name) || shells.contains(&name), "{line}");
    }
    let fds = script.told("fds");
    assert!(!fds.contains("/proc/") || fds.lines().filter(|it| it.contains("->")).count() <= 4, "{fds}");
    assert!(!fds.contains("status"), "{fds}");
}

// Case E9
#[tokio::test]
async fn plugin_failures_are_typed_errors_in_time() {
    fails("sleep 60", ErrorCode::DeadlineExceeded, "longer than 2s").await;
    fails("trap '' TERM INT; while :; do :; done", ErrorCode::DeadlineExceeded, "killed").await;
    fails("yes", ErrorCode::ResourceExhausted, "1048576 bytes and was killed; the task `to_query` expects").await;
    fails("echo '{}'; echo '{}'", ErrorCode::FailedPrecondition, "2 JSON documents").await;
    fails("cat", ErrorCode::FailedPrecondition, "the request itself").await;
    fails("yes >&2", ErrorCode::DeadlineExceeded, "longer").await;
    fails("echo no model here >&2; exit 3", ErrorCode::FailedPrecondition, "exited with 3: no model here").await;
    fails("kill -9 $$", ErrorCode::FailedPrecondition, "was killed (").await;
    fails("true", ErrorCode::FailedPrecondition, "printed nothing, but the task `to_query` expects").await;
    fails(r#"printf '{"axql": "sel'"#, ErrorCode::FailedPrecondition, "incomplete JSON").await;
    fails("echo hello", ErrorCode::FailedPrecondition, "not JSON: `hello`, but").await;
    fails("echo '{}'", ErrorCode::FailedPrecondition, "an empty JSON object, but").await;
    fails(r#"echo '{"error": "quota"}'"#, ErrorCode::FailedPrecondition, "quota").await;
}

#[tokio::test]
async fn stderr_is_shown_only_on_failure() {
    assert!(Script::new("echo noise >&2; echo '{\"axql\": \"x\"}'").ask().await.unwrap().notes.is_empty());
}

// Case E12
#[tokio::test]
async fn plugin_descendants_are_killed() {
    let strays = "sleep 100 & setsid sleep 101 & (setsid sh -c 'sleep 102 & sleep 103' &) ; sleep 0.1;";
    for (end, fine) in [(r#"echo '{"axql": "x"}'"#, true), ("exit 1", false), ("sleep 60", false)] {
        let script = Script::new(&format!("{strays} {end}"));
        // Adds the folder to the command lines, so that `alive` finds the processes.
        let begun = Instant::now();
        assert_eq!(script.ask().await.is_ok(), fine, "{end}");
        assert!(begun.elapsed() < Duration::from_secs(4), "{end}");
        let left: Vec<_> = alive(script.folder.path()).into_iter().filter(|it| it.contains("sleep")).collect();
        assert!(left.is_empty(), "{end}: {left:?}");
    }
}

#[tokio::test]
async fn dropping_the_call_kills_plugin() {
    let script = Script::new("echo x > begun; sleep 60");
    let begins = async {
        while script.told("begun") != "x\n" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        it = script.ask() => panic!("{it:?}"),
        () = begins => {}
    }
    assert!(alive(script.folder.path()).is_empty(), "{:?}", alive(script.folder.path()));
}

/// Runs a plugin that leaves a process behind, `runs` times, and checks that nothing remains.
async fn leaves_nothing(runs: usize) {
    let script = Script::new("setsid true & echo '{\"axql\": \"x\"}'");
    script.ask().await.unwrap();
    let pipes = || {
        let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
        open.filter_map(|it| std::fs::read_link(it.path()).ok())
            .filter(|it| it.to_string_lossy().starts_with("pipe:"))
            .count()
    };
    let before = pipes();
    for _ in 0..runs {
        script.ask().await.unwrap();
    }
    let us = std::process::id().to_string();
    let zombies = std::fs::read_dir("/proc").unwrap().flatten().filter(|it| {
        let stat = std::fs::read_to_string(it.path().join("stat")).unwrap_or_default();
        let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |it| it.1).split_whitespace().collect();
        // Counts only zombies of this test's programs, because processes of concurrent tests may still be ending.
        fields.first() == Some(&"Z") && fields.get(1) == Some(&us.as_str()) && stat.contains("(true)")
    });
    assert_eq!(zombies.count(), 0);
    // Allows some more pipes, because other tests start programs too; a leak would add one pipe per run.
    assert!(pipes() < before + runs / 2, "{before} {}", pipes());
    assert!(alive(script.folder.path()).is_empty());
}

#[tokio::test]
async fn hundred_runs_leave_no_zombies_or_open_files() {
    leaves_nothing(100).await;
}

#[tokio::test]
#[ignore = "a minute: cargo test --release --lib -- --ignored plugin"]
async fn thousand_runs_leave_no_zombies_or_open_files() {
    leaves_nothing(1_000).await;
}

// Case E11
#[tokio::test]
async fn writable_or_changed_program_is_not_run() {
    let script = Script::new("echo '{\"axql\": \"x\"}'");
    let path = script.folder.path().join("plugin");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
    let error = script.ask().await.unwrap_err();
    assert!(error.code == ErrorCode::PermissionDenied && error.hint.unwrap().starts_with("chmod"), "{}", error.message);
    write(&path, "echo '{\"axql\": \"y\"}'");
    let error = script.ask().await.unwrap_err();
    assert!(
        error.code == ErrorCode::PermissionDenied && error.message.contains("not the program that was chosen"),
        "{error}"
    );
    std::fs::remove_file(&path).unwrap();
    assert_eq!(script.ask().await.unwrap_err().code, ErrorCode::NotFound);
}

// Case E11
#[test]
fn program_is_found_in_path_not_in_current_folder() {
    let here = tempfile::tempdir().unwrap();
    write(&here.path().join("sh"), "true");
    let found = PluginCommand::find("sh", vec![], here.path()).unwrap();
    assert!(found.program.is_absolute() && !found.program.starts_with(here.path()));
    for wrong in ["", "no-such-program", "./no-such-program", "a\0b"] {
        assert!(PluginCommand::find(wrong, vec![], here.path()).is_err(), "{wrong:?}");
    }
    // Tries a folder, and a file that is not executable.
    std::fs::write(here.path().join("text"), "x").unwrap();
    for wrong in ["./", "./text"] {
        let error = PluginCommand::find(wrong, vec![], here.path()).unwrap_err();
        assert_eq!(error.code, ErrorCode::PermissionDenied, "{wrong}");
    }
}

// Case E11
#[tokio::test]
async fn check_reports_run_obstacles_with_hint() {
    let good = Script::new("echo '{}'");
    good.command.check(PrivacyMode::LocalOnly).await.unwrap();
    let refused = async |command: &PluginCommand, code: ErrorCode, said: &str| {
        let error = command.check(PrivacyMode::LocalOnly).await.unwrap_err();
        assert!(error.code == code && error.message.contains(said) && error.hint.is_some(), "{said}: {error:?}");
    };
    let elsewhere = PluginCommand { folder: good.folder.path().join("gone"), ..good.command.clone() };
    refused(&elsewhere, ErrorCode::NotFound, "gone`, in which the plugin runs, does not exist").await;
    let file = PluginCommand { folder: good.command.program.clone(), ..good.command.clone() };
    refused(&file, ErrorCode::FailedPrecondition, "is not a folder").await;
    // A run must report the missing folder too, and not a missing program.
    let error =
        file.ask(&question(), PrivacyMode::LocalOnly, PluginLimits::for_task(&question().task)).await.unwrap_err();
    assert!(error.message.contains("is not a folder"), "{error}");
    write(&good.command.program, "echo '{\"axql\": \"\"}'");
    refused(&good.command, ErrorCode::PermissionDenied, "it is not the program that was chosen").await;
    std::fs::remove_file(&good.command.program).unwrap();
    refused(&good.command, ErrorCode::NotFound, "plugin").await;
}

#[tokio::test]
async fn interpreter_script_is_checked_but_not_other_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let check = async |args: &[&str]| {
        let args = args.iter().map(|it| it.to_string()).collect();
        PluginCommand::find("sh", args, folder.path()).unwrap().check(PrivacyMode::LocalOnly).await
    };
    let error = check(&["plugin.sh"]).await.unwrap_err();
    assert!(error.code == ErrorCode::NotFound && error.message.contains("plugin.sh"), "{error}");
    assert!(error.hint.unwrap().contains("vic llm use command"));
    for fine in [&["-c", "no-such-file"][..], &["-s"], &[]] {
        check(fine).await.unwrap();
    }
    std::fs::write(folder.path().join("plugin.sh"), "echo '{}'").unwrap();
    check(&["plugin.sh", "no-such-file"]).await.unwrap();
    let odd = folder.path().join("odd");
    for (line, missing) in
        [("#!/no/such/shell -x", "/no/such/shell"), ("#!/usr/bin/env no-such-shell", "no-such-shell")]
    {
        std::fs::write(&odd, format!("{line}\n")).unwrap();
        std::fs::set_permissions(&odd, std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = PluginCommand::find("./odd", Vec::new(), folder.path())
            .unwrap()
            .check(PrivacyMode::LocalOnly)
            .await
            .unwrap_err();
        assert!(error.message.contains(&format!("a script for `{missing}`")) && error.hint.is_some(), "{error}");
    }
}

/// Passes a script to an interpreter in each supported way, and changes the script in each way that must be detected.
// Case E11
#[tokio::test]
async fn interpreter_script_and_absolute_files_are_hashed() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let path = |name: &str| at(name).to_str().unwrap().to_string();
    let fresh = |name: &str| {
        std::fs::remove_file(at(name)).ok();
        std::fs::write(at(name), "echo '{\"axql\": \"x\"}'").unwrap();
    };
    std::fs::write(at("main.sh"), "echo '{\"axql\": \"x\"}'").unwrap();
    let option = format!("--rules={}", path("extra"));
    let (extra, script) = (path("extra"), path("script"));
    let ways: [(&[&str], &str); 5] = [
        (&["script"], "script"),
        (&["-e", "-u", &script], "script"),
        (&["-u", "script"], "script"),
        (&["main.sh", &extra], "extra"),
        (&["main.sh", &option], "extra"),
    ];
    for (args, name) in ways {
        fresh(name);
        let args = args.iter().map(|it| it.to_string()).collect();
        let command = PluginCommand::find("sh", args, folder.path()).unwrap();
        let refused = async |said: &str| {
            let question = question();
            let asked = command.ask(&question, PrivacyMode::LocalOnly, PluginLimits::for_task(&question.task)).await;
            for error in [asked.unwrap_err(), command.check(PrivacyMode::LocalOnly).await.unwrap_err()] {
                assert!(error.message.contains(said) && error.hint.is_some(), "{said} {name}: {error:?}");
            }
        };
        command.check(PrivacyMode::LocalOnly).await.unwrap();
        std::fs::set_permissions(at(name), std::fs::Permissions::from_mode(0o666)).unwrap();
        refused("other users may change it").await;
        std::fs::rename(at(name), at("moved")).unwrap();
        std::fs::set_permissions(at("moved"), std::fs::Permissions::from_mode(0o644)).unwrap();
        std::os::unix::fs::symlink(at("moved"), at(name)).unwrap();
        refused("is a symbolic link").await;
        std::fs::remove_file(at(name)).unwrap();
        refused(name).await;
        std::fs::write(at(name), "echo '{\"axql\": \"y\"}'").unwrap();
        refused("it is not the file that was chosen").await;
        fresh(name);
        command.check(PrivacyMode::LocalOnly).await.unwrap();
    }
}

// Case E11
#[test]
fn symlink_or_writable_file_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "echo").unwrap();
    std::os::unix::fs::symlink(&script, folder.path().join("link")).unwrap();
    let find = |name: &str| PluginCommand::find("sh", vec![name.into()], folder.path());
    find("script").unwrap();
    let error = find("link").unwrap_err();
    assert!(error.hint.unwrap().contains("script"), "{}", error.message);
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o602)).unwrap();
    assert_eq!(find("script").unwrap_err().code, ErrorCode::PermissionDenied);
}

#[tokio::test]
async fn large_file_is_identified_by_size_and_times() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model");
    let file = std::fs::File::create(&model).unwrap();
    file.set_len(65 << 20).unwrap();
    std::fs::write(folder.path().join("script"), "echo").unwrap();
    let args = vec!["script".to_string(), model.to_str().unwrap().to_string()];
    let command = PluginCommand::find("sh", args, folder.path()).unwrap();
    command.check(PrivacyMode::LocalOnly).await.unwrap();
    std::os::unix::fs::FileExt::write_at(&file, b"x", 40 << 20).unwrap();
    assert!(command.check(PrivacyMode::LocalOnly).await.unwrap_err().message.contains("not the file that was chosen"));
}
