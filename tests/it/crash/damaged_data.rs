//! Tests that damaged, foreign and newer data is reported or moved aside, never deleted, and that missing data is reindexed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use crate::support::capabilities;
use crate::support::harness::World;

const FILES: usize = 5;

/// Returns a killed daemon with some indexed files, so that the data directory is in the state that a crash leaves.
pub(crate) fn crashed_world() -> World {
    let mut world = World::new().start();
    for number in 0..FILES {
        world
            .write(&format!("{number}.md"), format!("Entry {number} of the harbour log: the word is heron{number}.\n"));
    }
    world.index();
    world.kill();
    world
}

/// Returns a new test setup with a copy of the data directory of `origin`. The roots in the copy are still those of
/// `origin`.
pub(crate) fn copy_of(origin: &World) -> World {
    let world = World::new();
    assert!(Command::new("cp").args(["-a", "--"]).args([origin.data(), world.data()]).status().unwrap().success());
    world
}

/// Waits after a start until every file is indexed, and checks that a search finds each file.
pub(crate) fn check_all_is_read(world: &World, what: &str) {
    world.wait_until(&format!("all files are indexed after {what}"), Duration::from_secs(60), |it| {
        let status = it.json(&["status"]);
        let all = FILES as u64;
        status["coverage"]["indexed"] == all && status["coverage"]["pending"] == 0 && status["chunks"] == all
    });
    for number in 0..FILES {
        let paths = world.paths(&[&format!("heron{number}")]);
        assert_eq!(paths.first(), Some(&format!("{number}.md")), "{what}");
    }
}

/// Larger than the size at which the daemon rotates its log file, in bytes.
const LARGE_LOG_BYTES: u64 = 17 << 20;

/// Starts the daemon, which is expected to refuse. Returns its exit code and its standard error.
pub(crate) fn refused_start(world: &World) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = world.command(env!("CARGO_BIN_EXE_vicd")).output().unwrap();
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let files = walkdir::WalkDir::new(folder).into_iter().flatten().filter(|it| it.file_type().is_file());
    let mut files: Vec<PathBuf> = files.map(|it| it.into_path()).collect();
    files.sort_by_key(|it| std::fs::metadata(it).unwrap().modified().unwrap());
    files
}

/// Returns the files of the index tables whose path contains `part`, oldest first.
pub(crate) fn table_files(data: &Path, part: &str) -> Vec<PathBuf> {
    files_below(&data.join("index")).into_iter().filter(|it| it.to_string_lossy().contains(part)).collect()
}

/// Damages a file or several files of a data directory.
type Damage = fn(&Path);

fn overwrite(path: PathBuf, content: impl AsRef<[u8]>) {
    std::fs::write(path, content).unwrap();
}

fn overwrite_with_garbage(path: PathBuf) {
    overwrite(path, "this is garbage, whatever it was before. ".repeat(400));
}

/// Overwrites a database and its write-ahead log, because an intact log would replace the damaged pages.
fn overwrite_database_with_garbage(data: &Path, name: &str) {
    overwrite_with_garbage(data.join(name));
    let log = data.join(format!("{name}-wal"));
    if log.exists() {
        overwrite_with_garbage(log);
    }
}

fn cut_in_half(path: PathBuf) {
    let content = std::fs::read(&path).unwrap();
    overwrite(path, &content[..content.len() / 2]);
}

pub(crate) fn newest_manifest(data: &Path) -> PathBuf {
    table_files(data, ".manifest").pop().unwrap()
}

/// Damage that a start repairs, with a text that `vic status` or the log must contain. The text is empty if the damage
/// loses nothing of value.
const REPAIRED_DAMAGE: [(&str, &str, Damage); 20] = [
    ("an empty manifest", "index was damaged", |data| overwrite(newest_manifest(data), "")),
    ("a manifest of 8 bytes", "index was damaged", |data| overwrite(newest_manifest(data), "12345678")),
    ("a manifest of garbage", "index was damaged", |data| overwrite_with_garbage(newest_manifest(data))),
    ("manifests of garbage", "index was damaged", |data| {
        table_files(data, ".manifest").into_iter().for_each(overwrite_with_garbage);
    }),
    ("an empty data file", "index was damaged", |data| overwrite(table_files(data, ".lance/data/").remove(0), "")),
    ("a missing data file", "index was damaged", |data| {
        std::fs::remove_file(table_files(data, ".lance/data/").remove(0)).unwrap();
    }),
    ("a keyword index of garbage", "is rebuilt", |data| {
        table_files(data, "/_indices/").into_iter().for_each(overwrite_with_garbage);
    }),
    ("temporary files of a crash", "", |data| {
        let folder = newest_manifest(data).parent().unwrap().to_owned();
        for name in [".tmp_7", "8.manifest#1", ".atomicwrite9"] {
            overwrite(folder.join(name), "half");
        }
        overwrite(data.join(".vic-probeX"), "");
    }),
    ("no number of the last version", "", |data| std::fs::remove_file(table_files(data, ".synced").remove(0)).unwrap()),
    ("a catalog of garbage", "catalog was damaged", |data| overwrite_database_with_garbage(data, "catalog.sqlite")),
    ("half a write-ahead log", "", |data| cut_in_half(data.join("catalog.sqlite-wal"))),
    ("no shared memory of the log", "", |data| std::fs::remove_file(data.join("catalog.sqlite-shm")).unwrap()),
    ("a list of jobs of garbage", "the list of jobs: damaged", |data| {
        overwrite_database_with_garbage(data, "vic_jobs.sqlite");
    }),
    ("sessions of garbage", "sessions, views and results", |data| {
        overwrite_database_with_garbage(data, "corpus.sqlite");
    }),
    ("a graph of garbage", "imported graphs", |data| overwrite_database_with_garbage(data, "graph.sqlite")),
    ("transcripts of garbage", "the log of agents", |data| overwrite_database_with_garbage(data, "transcripts.sqlite")),
    ("a list of roots of garbage", "roots.txt.damaged", |data| overwrite(data.join("roots.txt"), [0xff; 64])),
    ("an audit log of garbage", "the audit log: damaged", |data| overwrite_database_with_garbage(data, "audit.sqlite")),
    ("vectors of garbage", "vectors.sqlite.damaged", |data| overwrite_database_with_garbage(data, "vectors.sqlite")),
    ("evidence of garbage", "evidence.sqlite.damaged", |data| overwrite_database_with_garbage(data, "evidence.sqlite")),
];

#[test]
fn runtime_damage_is_reported_and_repaired_on_restart() {
    let mut world = World::new().start();
    (0..FILES).for_each(|it| drop(world.write(&format!("{it}.md"), format!("The word is heron{it}.\n"))));
    world.index();
    table_files(&world.data(), ".lance/data/").into_iter().for_each(|it| overwrite(it, ""));
    world.write("0.md", "Changed since: the word is heron0.\n");
    world.wait_until("the status reports the damage", Duration::from_secs(30), |it| {
        let status = it.ok(&["status"]);
        status.contains("cannot index the changed files") && status.contains("restart the daemon")
    });
    world.kill();
    world.spawn_and_wait();
    check_all_is_read(&world, "damage to the data of a running daemon");
}

// Case B6
#[test]
fn unreadable_index_is_reported_in_status_with_all_else() {
    let world = World::new().start();
    world.write("heron.md", "The word is heron.\n");
    world.index();
    let versions = newest_manifest(&world.data()).parent().unwrap().to_owned();
    let aside = versions.with_extension("aside");
    std::fs::rename(&versions, &aside).unwrap();
    // A symbolic link to itself makes the folder unreadable; missing permissions would not stop root.
    std::os::unix::fs::symlink(&versions, &versions).unwrap();
    let status = world.json(&["status"]);
    assert!(status["degraded"].to_string().contains("cannot read the index"), "{status}");
    assert!(status["coverage"]["indexed"] == 1 && status["roots"].as_array().unwrap().len() == 1, "{status}");
    std::fs::remove_file(&versions).unwrap();
    std::fs::rename(&aside, &versions).unwrap();
    assert_eq!(world.json(&["status"])["degraded"].as_array().unwrap().len(), 0);
}

// Cases B3, B4, B5, B6
#[test]
fn damage_is_set_aside_reported_and_reindexed() {
    let origin = crashed_world();
    let own = snapshot(&origin.files());
    for (what, told, damage) in REPAIRED_DAMAGE {
        let mut world = copy_of(&origin);
        damage(&world.data());
        let damaged = new_contents(&origin.data(), &world.data());
        // Excludes the JSON file with the number of the last durable version: its content need not be kept.
        let mut of_tables = table_files(&world.data(), ".lance/");
        of_tables.retain(|it| it.extension().is_none_or(|it| it != "json"));
        let of_tables = read_all(&of_tables);
        world.spawn_and_wait();
        let status = world.ok(&["status"]);
        assert!(status.contains(told) || world.log().contains(told), "{what}: {status}\n{}", world.log());
        check_all_is_read(&world, what);
        let kept = read_all(&files_below(&world.data()));
        assert!(damaged.iter().all(|it| kept.contains(it)), "{what}: the content of a damaged file must be kept");
        assert!(of_tables.iter().all(|it| kept.contains(it)), "{what}: the content of every table file must be kept");
        // After the repair, the next start must not report a problem.
        assert!(world.terminate(), "{what}\n{}", world.log());
        world.spawn_and_wait();
        check_all_is_read(&world, what);
        let degraded = &world.json(&["status"])["degraded"];
        assert_eq!(degraded.as_array().unwrap().len(), 0, "{what}: {degraded}");
        assert_eq!(snapshot(&origin.files()), own, "{what}");
    }
}

// Case B4
#[test]
fn corrupt_vectors_are_reported_and_rebuilt() {
    let origin = crashed_world();
    let mut world = copy_of(&origin);
    for path in table_files(&world.data(), ".lance/data/") {
        let mut content = std::fs::read(&path).unwrap();
        // Damages the middle fifth of the file, because most of a data file is vectors.
        let (begin, end) = (content.len() * 2 / 5, content.len() * 3 / 5);
        content[begin..end].iter_mut().step_by(101).for_each(|it| *it ^= 0x55);
        overwrite(path, content);
    }
    let agreement = |world: &World| {
        let checks = world.json_with_code(&["doctor"]).1["checks"].clone();
        checks.as_array().unwrap().iter().find(|it| it["name"] == "index and catalog").unwrap().clone()
    };
    let told = agreement(&world);
    assert!(told["health"] == "problem" && told["finding"].to_string().contains("or vectors"), "{told}");
    world.spawn_and_wait();
    assert!(world.log().contains("does not match the catalog"), "{}", world.log());
    check_all_is_read(&world, "damaged vectors");
    assert!(world.terminate());
    assert_eq!(agreement(&world)["health"], "ok");
}

fn read_all(files: &[PathBuf]) -> Vec<Vec<u8>> {
    files.iter().map(|it| std::fs::read(it).unwrap()).collect()
}

/// Returns the file contents that exist only in `after`. Skips empty files and files that are still being written.
fn new_contents(before: &Path, after: &Path) -> Vec<Vec<u8>> {
    let before = read_all(&files_below(before));
    let after = files_below(after).into_iter().filter(|it| {
        let name = it.to_string_lossy();
        !name.ends_with("-wal") && !name.ends_with("-shm") && !name.contains("vic-probe")
    });
    after.map(|it| std::fs::read(it).unwrap()).filter(|it| !it.is_empty() && !before.contains(it)).collect()
}

#[test]
fn newer_or_foreign_directory_is_refused_unmodified() {
    let newer = copy_of(&crashed_world());
    overwrite(newer.data().join("format"), "vic data directory, format 999\n");
    let unclear = copy_of(&newer);
    overwrite(unclear.data().join("format"), "");
    let foreign = World::new();
    std::fs::create_dir(foreign.data()).unwrap();
    overwrite(foreign.data().join("holiday.jpg"), "a picture");
    // Makes the log so large that a start would rotate it.
    std::fs::File::create(newer.data().join("vicd.log")).unwrap().set_len(LARGE_LOG_BYTES).unwrap();
    let folder = newer.files().display().to_string();
    let commands: [&[&str]; 5] = [
        &["status"],
        &["keys", "add", "ada", "--root", &folder],
        &["keys", "revoke", "ada"],
        &["llm", "use", "mock"],
        &["demo"],
    ];
    for (world, code, named) in [(&newer, 6, "format 999"), (&unclear, 10, "format"), (&foreign, 6, "holiday.jpg")] {
        let before = snapshot(&world.data());
        for _ in 0..2 {
            let (got, said) = refused_start(world);
            assert!(got == Some(code) && said.contains(named) && said.contains("hint:"), "{got:?}: {said}");
        }
        for command in commands {
            let (got, said) = world.fails(command);
            assert!(got == code && said.contains(named), "{command:?}: {got}: {said}");
        }
        assert_eq!(snapshot(&world.data()), before, "{named}");
    }
}

pub(crate) fn snapshot(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> =
        files_below(folder).into_iter().map(|it| (it.clone(), std::fs::read(it).unwrap())).collect();
    // Skips files that a start or a clean stop may change: the log, the lock, the address, and the side files of SQLite.
    let matters = |path: &Path| {
        !["vicd.log", "vicd.lock", "/listen", "-wal", "-shm"].iter().any(|end| path.to_string_lossy().ends_with(end))
    };
    files.retain(|(path, _)| matters(path));
    files.sort();
    files
}

// Case B7
#[test]
fn unreadable_data_fails_every_start_and_is_not_replaced() {
    let origin = crashed_world();
    for (what, locked) in [("the table", "index"), ("the catalog", "catalog.sqlite")] {
        let world = copy_of(&origin);
        let path = match locked {
            "index" => newest_manifest(&world.data()).parent().unwrap().to_owned(),
            file => world.data().join(file),
        };
        let before = snapshot(&world.data());
        let sandbox = deny_access(&world, &path);
        if !capabilities::can_switch_user(sandbox.is_some()) {
            return;
        }
        let sandbox = sandbox.unwrap();
        let start = || {
            let mut command = Command::new(&sandbox[0]);
            let own = world.command(env!("CARGO_BIN_EXE_vicd"));
            command.args(&sandbox[1..]).arg(own.get_program());
            command.env_clear().envs(own.get_envs().filter_map(|(name, value)| Some((name, value?)))).output().unwrap()
        };
        let said: Vec<String> = (0..2)
            .map(|_| {
                let Output { status, stderr, .. } = start();
                let said = String::from_utf8_lossy(&stderr).into_owned();
                assert_eq!(status.code(), Some(7), "{what}: {said}");
                said.lines().filter(|it| it.starts_with("error:")).collect()
            })
            .collect();
        assert_eq!(said[0], said[1], "{what}");
        restore_access(&path);
        let after = snapshot(&world.data());
        for (path, content) in &before {
            let kept = after.iter().any(|it| it.0 == *path && it.1.len() >= content.len());
            assert!(kept, "{what}: {} is gone", path.display());
        }
    }
}

/// Removes all permissions of a path. Returns a command prefix under which the path is unreadable, or None if root cannot
/// switch to another user.
fn deny_access(world: &World, path: &Path) -> Option<Vec<String>> {
    use std::os::unix::fs::PermissionsExt;
    let forbid =
        |path: &Path, mode: u32| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    forbid(path, 0o000);
    if std::fs::read_dir(path).is_err() && std::fs::File::open(path).is_err() {
        return Some(vec!["env".into()]);
    }
    let run = |program: &str, arguments: &[&str]| {
        Command::new(program).args(arguments).output().is_ok_and(|it| it.status.success())
    };
    let data = world.data();
    forbid(data.parent()?, 0o755);
    let sandbox = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let is_ready = run("chown", &["-R", "65534:65534", data.to_str()?])
        && run(sandbox[0], &[&sandbox[1..], &[env!("CARGO_BIN_EXE_vicd"), "--version"]].concat());
    is_ready.then(|| sandbox.map(String::from).to_vec())
}

fn restore_access(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
}

// Cases B10, B12
#[test]
fn doctor_finds_and_fixes_each_damage() {
    let origin = crashed_world();
    let all_well = copy_of(&origin);
    let checks = |world: &World, arguments: &[&str]| {
        let output = world.vic(&[&["doctor", "--format", "json"], arguments].concat());
        let report: vic::model::DoctorReport = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let found = report.checks.iter().map(|it| (it.name.clone(), it.health.name())).collect::<Vec<_>>();
        (output.status.code().unwrap(), found)
    };
    let health = |checks: &[(String, &'static str)], name: &str| {
        checks.iter().find(|it| it.0 == name).unwrap_or_else(|| panic!("no check named {name} in {checks:?}")).1
    };
    let (code, found) = checks(&all_well, &[]);
    let wrong: Vec<_> = found.iter().filter(|it| it.1 != "ok" && !it.0.starts_with("model")).collect();
    assert!(wrong.is_empty(), "{code}: {wrong:?}");
    let damages: [(&str, Damage); 6] = [
        ("catalog", |data| overwrite_database_with_garbage(data, "catalog.sqlite")),
        ("vectors", |data| overwrite_database_with_garbage(data, "vectors.sqlite")),
        ("index", |data| overwrite(newest_manifest(data), "")),
        ("index and catalog", |data| {
            let db = rusqlite::Connection::open(data.join("catalog.sqlite")).unwrap();
            db.execute("UPDATE files SET chunks = 7 WHERE id = (SELECT min(id) FROM files)", []).unwrap();
        }),
        ("permissions", |data| {
            use std::os::unix::fs::PermissionsExt;
            let path = data.join("catalog.sqlite");
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
        }),
        ("permissions", |data| {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(data, std::fs::Permissions::from_mode(0o777)).unwrap();
        }),
    ];
    for (name, damage) in damages {
        let mut world = copy_of(&origin);
        damage(&world.data());
        let before = snapshot(&world.data()).len();
        let (code, found) = checks(&world, &[]);
        assert_eq!((code, health(&found, name)), (10, "problem"), "{name}");
        assert!(snapshot(&world.data()).len() >= before, "{name}: `vic doctor` must not delete files");
        let (_, found) = checks(&world, &["--fix"]);
        assert!(found.iter().any(|it| it.0 == name && it.1 == "fixed"), "{name}: {found:?}");
        let (_, found) = checks(&world, &[]);
        assert!(found.iter().all(|it| it.1 == "ok" || it.0.starts_with("model")), "{name}: {found:?}");
        world.spawn_and_wait();
        check_all_is_read(&world, name);
        let (code, said) = world.fails(&["doctor", "--fix"]);
        assert!(code == 5 && said.contains("vic daemon stop"), "{code}: {said}");
    }
}
