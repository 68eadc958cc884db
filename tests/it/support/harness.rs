//! Runs a real daemon on a temporary data directory, and real `vic` commands against it, for all integration tests.

use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use tempfile::TempDir;

/// Returns the path of `vic`, which `make build` puts beside `vicd`. Cargo builds `vicd` for these tests, but not `vic`, which
/// is in another crate. Panics if `vic` is missing or older than its sources.
pub(crate) fn vic_program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        const CURE: &str = "run `cargo build --release --bins`";
        let program = Path::new(env!("CARGO_BIN_EXE_vicd")).with_file_name("vic");
        let built = std::fs::metadata(&program).and_then(|it| it.modified());
        let built = built.unwrap_or_else(|error| panic!("`{}`: {error}: {CURE}", program.display()));
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
        for sources in ["cli/src", "protocol/src"] {
            let changed = newest_change(&crates.join(sources)).unwrap();
            assert!(changed <= built, "`vic` is older than its sources in `{sources}`: {CURE}");
        }
        program.to_str().expect("a path in UTF-8").to_string()
    })
}

/// Returns the time of the newest change to a file below a folder.
fn newest_change(folder: &Path) -> std::io::Result<SystemTime> {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        let changed = if metadata.is_dir() { newest_change(&entry.path())? } else { metadata.modified()? };
        newest = newest.max(changed);
    }
    Ok(newest)
}

/// Returns the variables of all daemons in this run: `tests/milvus_behaviour.sh` runs tests with another store.
fn variables_of_run() -> Vec<(String, String)> {
    let store = std::env::var("VIC_TEST_STORE").ok();
    store.map(|it| ("VIC_VECTOR_BACKEND".to_string(), it)).into_iter().collect()
}

/// The setup of a test: a daemon with its data directory, and an empty folder to index. Dropping the value kills the daemon.
pub(crate) struct World {
    dir: TempDir,
    daemon: Option<Child>,
    variables: Vec<(String, String)>,
    /// Command that every program is started through, with its arguments; empty starts programs directly.
    launcher: Vec<String>,
}

impl World {
    /// Creates the temporary folders. Does not start the daemon.
    pub(crate) fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("files")).unwrap();
        World { dir, daemon: None, variables: variables_of_run(), launcher: Vec::new() }
    }

    /// Sets an environment variable for the daemon and for every `vic` command.
    pub(crate) fn with(mut self, name: &str, value: &str) -> World {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Starts every program through this launcher command, which must replace itself with the program (exec).
    pub(crate) fn under(mut self, launcher: Vec<String>) -> World {
        self.launcher = launcher;
        self
    }

    /// Runs every program without root's capabilities to bypass file permissions.
    pub(crate) fn without_root_override(self) -> World {
        let launcher = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"].map(String::from).to_vec();
        if rustix::process::geteuid().is_root() { self.under(launcher) } else { self }
    }

    /// Starts the daemon and waits until it answers requests.
    pub(crate) fn start(mut self) -> World {
        self.spawn_and_wait();
        self
    }

    /// Starts the daemon through this launcher command. Does not wait until it answers.
    pub(crate) fn spawn_with_launcher(&mut self, launcher: &[String]) {
        let log = std::fs::File::options().create(true).append(true).open(self.dir.path().join("log")).unwrap();
        // A killed daemon leaves `listen`, the file with its address. A command that trusts it would start a competing
        // daemon.
        std::fs::remove_file(self.data().join("listen")).ok();
        let own = std::mem::replace(&mut self.launcher, launcher.to_vec());
        let mut command = self.command(env!("CARGO_BIN_EXE_vicd"));
        self.launcher = own;
        self.daemon = Some(command.stdin(Stdio::null()).stderr(log).spawn().unwrap());
    }

    /// Starts the daemon. Does not wait until it answers.
    pub(crate) fn spawn_without_wait(&mut self) {
        self.spawn_with_launcher(&self.launcher.clone());
    }

    /// Starts or restarts the daemon and waits until it answers requests.
    pub(crate) fn spawn_and_wait(&mut self) {
        self.spawn_without_wait();
        self.wait_until("the daemon answers", Duration::from_secs(60), |world| {
            world.data().join("listen").exists() && world.vic(&["status", "--format", "json"]).status.success()
        });
    }

    /// Kills the daemon with SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill().unwrap();
            daemon.wait().unwrap();
        }
    }

    /// Stops the daemon with SIGTERM. Returns whether it exited successfully.
    pub(crate) fn terminate(&mut self) -> bool {
        let mut daemon = self.daemon.take().expect("a daemon runs");
        let pid = daemon.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        daemon.wait().unwrap().success()
    }

    /// Returns the exit status of the daemon if it has ended.
    pub(crate) fn exit_status(&mut self) -> Option<std::process::ExitStatus> {
        self.daemon.as_mut().and_then(|it| it.try_wait().unwrap())
    }

    /// Returns the settings that the daemon runs with.
    pub(crate) fn config(&self) -> vic::config::Config {
        let data = self.data();
        let own = |name: &str| self.variables.iter().find(|it| it.0 == name).map(|it| it.1.clone().into());
        vic::config::Config::from_lookup(&|name| match name {
            "VIC_DATA_DIR" => Some(data.clone().into_os_string()),
            // Several checkouts share compiled crates, so that the folder of models that is compiled in may be another one's.
            "VIC_MODELS_DIR" => own(name).or_else(|| std::env::var_os(name)),
            name => own(name),
        })
        .unwrap()
    }

    /// Hands over the process of the daemon, so that dropping this value does not kill it.
    pub(crate) fn release(&mut self) -> Child {
        self.daemon.take().expect("a daemon runs")
    }

    /// Returns the daemon's process id.
    pub(crate) fn pid(&self) -> u32 {
        self.daemon.as_ref().expect("a daemon runs").id()
    }

    /// Returns the data directory of the daemon.
    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    /// Returns the address, host and port, at which the daemon listens.
    pub(crate) fn listen(&self) -> String {
        std::fs::read_to_string(self.data().join("listen")).unwrap().trim().into()
    }

    /// Returns the folder that the tests index.
    pub(crate) fn files(&self) -> PathBuf {
        self.dir.path().join("files")
    }

    /// Writes a file into the folder to index, with its parent folders.
    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.files().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Indexes the folder of [`World::files`] and waits until the job has ended.
    pub(crate) fn index(&self) {
        self.ok(&["index", &self.files().display().to_string()]);
    }

    /// Runs `vic` with these arguments and returns its output, also if it failed.
    pub(crate) fn vic(&self, arguments: &[&str]) -> Output {
        self.run(crate::support::harness::vic_program(), arguments)
    }

    /// Like [`World::vic`], with another program.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = self.command(program);
        // Output goes into files: a daemon started by the command inherits pipes and would keep them open.
        let mut into = [tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap()];
        command.args(arguments).stdin(Stdio::null());
        command.stdout(into[0].try_clone().unwrap()).stderr(into[1].try_clone().unwrap());
        let status = command.status().unwrap();
        let [stdout, stderr] = into.each_mut().map(|file| {
            let mut said = Vec::new();
            file.rewind().unwrap();
            file.read_to_end(&mut said).unwrap();
            said
        });
        Output { status, stdout, stderr }
    }

    /// Runs `vic`, which must succeed. Returns its standard output.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let output = self.vic(arguments);
        assert!(
            output.status.success(),
            "vic {arguments:?}: {}\n{}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr),
            self.log()
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs `vic` with `--format json`, which must succeed. Returns the parsed output.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.extend(["--format", "json"]);
        serde_json::from_str(&self.ok(&arguments)).unwrap()
    }

    /// Runs `vic` with `--format json`. Returns its exit code and its parsed output.
    pub(crate) fn json_with_code(&self, arguments: &[&str]) -> (i32, Value) {
        let mut arguments = arguments.to_vec();
        arguments.extend(["--format", "json"]);
        let output = self.vic(&arguments);
        let printed = serde_json::from_slice(&output.stdout);
        (output.status.code().unwrap(), printed.unwrap_or_else(|error| panic!("{error}: {output:?}")))
    }

    /// Runs `vic`, which must fail. Returns its exit code and its standard error.
    pub(crate) fn fails(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.vic(arguments);
        assert!(!output.status.success(), "vic {arguments:?} succeeded");
        (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    /// Runs `vic ask` with these arguments and returns the paths of the hits.
    pub(crate) fn paths(&self, arguments: &[&str]) -> Vec<String> {
        let mut all = vec!["ask"];
        all.extend(arguments);
        let answer = self.json(&all);
        let hits = answer["hits"].as_array().unwrap();
        hits.iter().map(|hit| hit["path"].as_str().unwrap().to_string()).collect()
    }

    /// Polls until `holds` returns true. Fails with the log of the daemon if that takes longer than `limit`.
    pub(crate) fn wait_until(&self, what: &str, limit: Duration, mut holds: impl FnMut(&World) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < limit, "not within {limit:?}: {what}\n{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the log of the daemon.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    pub(crate) fn command(&self, program: &str) -> Command {
        let mut words = self.launcher.iter().map(String::as_str).chain([program]);
        let mut command = Command::new(words.next().unwrap_or(program));
        command.args(words);
        command.env_clear().env("PATH", std::env::var("PATH").unwrap_or_default());
        command.env("HOME", self.dir.path().join("home")).env("VIC_DATA_DIR", self.data());
        command.env("VIC_LISTEN", "127.0.0.1:0").current_dir(self.dir.path());
        if let Ok(models) = std::env::var("VIC_MODELS_DIR") {
            command.env("VIC_MODELS_DIR", models);
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Returns the folder of the sample files of the repository.
pub(crate) fn sample_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data")
}
