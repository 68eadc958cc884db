//! Tests limits between keys: one key cannot use all job slots, and all work of a key ends when the key is revoked.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::api::scopes::Team;
use crate::api::scopes::add_key;
use crate::api::scopes::team;
use crate::api::scopes::team_in;
use crate::support::grpc_client;
use crate::support::harness::World;
use crate::support::http_client::connect;

/// Maximum time until the streams and jobs of a key end after its revocation, generous for a busy machine.
const REVOKE_LIMIT: Duration = Duration::from_secs(5);

/// Pauses indexing and adds a file to Alpha's folder, so that jobs that need the file stay unfinished. Returns the users.
fn paused_team() -> Team {
    // The watcher is off, so that only jobs find the new file.
    let team = team_in(World::new().with("VIC_WATCH", "0"));
    team.world.ok(&["pause"]);
    team.world.write("alphazone/third.md", "One more alphacanary, on the roof.\n");
    team
}

impl Team {
    /// Starts a corpus job. Returns its id, or the HTTP status if the daemon refuses.
    fn start_corpus_job(&self, key: &str, verb: &str, body: &Value) -> Result<String, u16> {
        let told = self.send(key, "POST", &format!("/v1/corpus/{verb}"), body);
        match told.status {
            202 => Ok(told.json()["data"]["job_id"].as_str().unwrap().to_string()),
            429 => {
                assert_eq!(told.json()["error"]["code"], "resource_exhausted");
                assert!(told.header("retry-after").is_some() && told.body.contains("for this key"), "{}", told.body);
                Err(429)
            }
            other => panic!("{other}: {}", told.body),
        }
    }

    /// Returns the state of a corpus job, after cancelling the job if `cancel` is set; or the HTTP status of the refusal.
    fn corpus_job_state(&self, key: &str, id: &str, cancel: bool) -> Result<String, u16> {
        let told = self.send(key, "POST", "/v1/corpus/job", &json!({"id": id, "cancel": cancel}));
        match told.status {
            200 => Ok(told.json()["data"]["state"].as_str().unwrap().to_string()),
            status => Err(status),
        }
    }

    /// Sends a synchronous request to ingest Alpha's folder. Returns the connection before the response arrives.
    fn ingest_slowly(&self, key: &str) -> TcpStream {
        let body = json!({"paths": [self.world.files().join("alphazone")]}).to_string();
        let mut stream = connect(&self.world);
        stream.set_read_timeout(Some(4 * REVOKE_LIMIT)).unwrap();
        let head = format!("POST /v1/corpus/ingest HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n");
        let kind = format!("content-type: application/json\r\ncontent-length: {}\r\n", body.len());
        stream.write_all(format!("{head}{kind}connection: close\r\n\r\n{body}").as_bytes()).unwrap();
        stream
    }

    /// Starts an index job on Alpha's folder. Returns its id, or the HTTP status if the daemon refuses.
    fn index(&self, key: &str) -> Result<String, u16> {
        let told = self.send(key, "POST", "/v1/index/start", &json!({"root": self.world.files().join("alphazone")}));
        match told.status {
            202 => Ok(told.json()["job_id"].as_str().unwrap().to_string()),
            status => Err(status),
        }
    }

    /// Cancels an index job. Returns the gRPC status code.
    fn cancel(&self, key: &str, job: &str) -> Option<u32> {
        self.grpc(key, "/vic.v1.Vic/CancelJob", &grpc_client::string_field(1, job)).code
    }

    /// Returns the ids of all index jobs.
    fn jobs(&self) -> Vec<String> {
        let jobs = self.world.json(&["jobs"]);
        jobs.as_array().unwrap().iter().map(|it| it["job_id"].as_str().unwrap().to_string()).collect()
    }

    /// Returns the state of an index job, asked with the owner's key.
    fn index_job_state(&self, job: &str) -> String {
        let path = format!("/v1/index/status?job_id={job}");
        self.send(&self.owner, "GET", &path, &Value::Null).json()["state"].as_str().unwrap().to_string()
    }
}

// Case D11
#[test]
fn key_may_use_half_of_corpus_jobs_and_cancel_its_own() {
    let team = paused_team();
    let gamma = add_key(&team.world, "gamma", "betazone", "read");
    // This job cannot finish while indexing is paused, and all later jobs wait for it.
    let ingest = json!({"paths": [team.world.files().join("alphazone")], "async": true});
    let first = team.start_corpus_job(&team.alpha, "ingest", &ingest).unwrap();
    let query = json!({"filter": "size>0", "async": true});
    let begun: Vec<String> = (0..100).map_while(|_| team.start_corpus_job(&team.beta, "query", &query).ok()).collect();
    assert_eq!((begun.len(), team.start_corpus_job(&team.beta, "query", &query)), (32, Err(429)));
    for other in [&team.alpha, &gamma, &team.owner] {
        team.start_corpus_job(other, "query", &query).unwrap();
    }
    let (one, another) = (&begun[30], &begun[31]);
    // For keys other than its own and the owner's, a job does not exist, even if the keys have the same folders.
    for key in [&team.beta, &team.owner] {
        assert_eq!(team.corpus_job_state(key, one, false).as_deref(), Ok("running"));
    }
    for (key, id) in [(&gamma, one), (&team.alpha, one), (&team.beta, &first)] {
        assert_eq!([false, true].map(|cancel| team.corpus_job_state(key, id, cancel)), [Err(404), Err(404)]);
    }
    for (key, id) in [(&team.beta, one), (&team.owner, another), (&team.beta, another), (&team.alpha, &first)] {
        assert_eq!(team.corpus_job_state(key, id, true).as_deref(), Ok("cancelled"));
    }
    team.start_corpus_job(&team.beta, "query", &query).unwrap();
    team.world.ok(&["resume"]);
    team.world.wait_until("the jobs that were not cancelled have completed", Duration::from_secs(60), |_| {
        begun[..30].iter().all(|it| team.corpus_job_state(&team.beta, it, false).as_deref() == Ok("completed"))
    });
    assert_eq!(team.corpus_job_state(&team.beta, one, false).as_deref(), Ok("cancelled"));
}

#[test]
fn key_may_use_half_of_index_jobs() {
    let team = paused_team();
    let delta = add_key(&team.world, "delta", "alphazone", "index");
    let begun: Vec<String> = (0..200).map_while(|_| team.index(&team.alpha).ok()).collect();
    assert_eq!((begun.len(), team.index(&team.alpha)), (64, Err(429)));
    team.index(&delta).unwrap();
    team.index(&team.owner).unwrap();
    // A job that has ended frees its slot.
    assert_eq!(team.cancel(&team.alpha, &begun[63]), Some(0));
    team.world.wait_until("a new job is accepted", Duration::from_secs(10), |_| team.index(&team.alpha).is_ok());
}

#[test]
fn index_job_outside_scope_cannot_be_cancelled() {
    let team = paused_team();
    let gamma = add_key(&team.world, "gamma", "betazone", "index");
    let of_alpha = team.index(&team.alpha).unwrap();
    let begun = team.send(&team.owner, "POST", "/v1/index/start", &json!({}));
    let of_all = begun.json()["job_id"].as_str().unwrap().to_string();
    let said = |key: &str, job: &str| {
        let told = team.grpc(key, "/vic.v1.Vic/CancelJob", &grpc_client::string_field(1, job)).headers;
        let message = told.split("\"grpc-message\": ").nth(1).unwrap_or_else(|| panic!("{told}"));
        message.split('"').nth(1).unwrap().replace(job, "JOB")
    };
    for (key, job) in [(&gamma, &of_alpha), (&gamma, &of_all), (&team.alpha, &of_all)] {
        assert_eq!(team.cancel(key, job), Some(5));
        assert_eq!(said(key, job), said(key, "no-such-job"));
    }
    assert!([&of_alpha, &of_all].iter().all(|it| ["queued", "running"].contains(&team.index_job_state(it).as_str())));
    for job in [&of_all, &of_alpha] {
        assert_eq!(team.cancel(&team.owner, job), Some(0));
        team.world
            .wait_until("the job has ended", Duration::from_secs(10), |_| team.index_job_state(job) == "cancelled");
    }
}

// Case E14
#[test]
fn streams_of_revoked_key_end() {
    let team = paused_team();
    let job = team.index(&team.alpha).unwrap();
    let owners_job = team.index(&team.owner).unwrap();
    let events = format!("/v1/index/events?job_id={job}");
    let watch = |key: &str, job: &str| team.grpc(key, "/vic.v1.Vic/WatchJob", &grpc_client::string_field(1, job));
    let (told, called, owners, took) = std::thread::scope(|scope| {
        let over_http = scope.spawn(|| team.send(&team.alpha, "GET", &events, &Value::Null));
        let over_grpc = scope.spawn(|| watch(&team.alpha, &job));
        let owners = scope.spawn(|| watch(&team.owner, &owners_job));
        std::thread::sleep(Duration::from_secs(2));
        let waits = !over_http.is_finished() && !over_grpc.is_finished();
        team.world.ok(&["keys", "revoke", "alpha"]);
        let revoked = Instant::now();
        while !(over_http.is_finished() && over_grpc.is_finished()) && revoked.elapsed() < REVOKE_LIMIT {
            std::thread::sleep(Duration::from_millis(20));
        }
        let took = (waits && !owners.is_finished()).then(|| revoked.elapsed());
        // Resumes in every case: otherwise a failed check would leave the threads waiting.
        team.world.ok(&["resume"]);
        (over_http.join().unwrap(), over_grpc.join().unwrap(), owners.join().unwrap(), took)
    });
    assert!(took.is_some_and(|it| it < REVOKE_LIMIT), "{took:?}");
    assert!(told.status == 200 && told.body.contains("event: progress"), "{}", told.body);
    assert!(!told.body.contains("event: done"), "{}", told.body);
    let (_, last) = told.body.rsplit_once("event: ").unwrap();
    assert!(last.starts_with("error\n") && last.contains("unauthenticated"), "no error event: {}", told.body);
    assert_eq!(called.code, Some(16), "{called:?}");
    assert_eq!(owners.code, Some(0), "the owner's stream must not end");
    assert_eq!(team.send(&team.alpha, "GET", "/v1/status", &Value::Null).status, 401);
}

#[test]
fn jobs_of_revoked_key_are_cancelled_and_no_others() {
    let team = paused_team();
    let same = add_key(&team.world, "same", "alphazone", "index");
    let (first, waits) = (team.index(&team.alpha).unwrap(), team.index(&team.alpha).unwrap());
    let others = [team.index(&same).unwrap(), team.index(&team.owner).unwrap()];
    // Indexing is paused, so these verbs wait for their index jobs.
    let ingest = json!({"paths": [team.world.files().join("alphazone")], "async": true});
    let known = team.jobs();
    let verb = team.start_corpus_job(&team.alpha, "ingest", &ingest).unwrap();
    let mut answer = team.ingest_slowly(&team.alpha);
    let of_verbs = || team.jobs().into_iter().filter(|it| !known.contains(it)).collect::<Vec<String>>();
    team.world.wait_until("both verbs have started an index job", REVOKE_LIMIT, |_| of_verbs().len() == 2);
    let of_verbs = of_verbs();
    let others_verb = team.start_corpus_job(&same, "ingest", &ingest).unwrap();
    team.world.ok(&["keys", "revoke", "alpha"]);
    team.world.wait_until("the jobs of the revoked key have ended", 4 * REVOKE_LIMIT, |_| {
        let verb = team.corpus_job_state(&team.owner, &verb, false);
        let is_cancelled = |it: &String| team.index_job_state(it) == "cancelled";
        [&first, &waits].into_iter().chain(&of_verbs).all(is_cancelled) && verb.as_deref() == Ok("cancelled")
    });
    let mut told = String::new();
    answer.read_to_string(&mut told).unwrap();
    assert!(told.starts_with("HTTP/1.1 401"), "{told}");
    team.world.ok(&["resume"]);
    team.world.wait_until("the jobs of other keys have completed", Duration::from_secs(60), |_| {
        let verb = team.corpus_job_state(&same, &others_verb, false);
        others.iter().all(|it| team.index_job_state(it) == "completed") && verb.as_deref() == Ok("completed")
    });
}

#[test]
fn cancelled_index_job_cancels_its_verb() {
    let team = paused_team();
    let known = team.jobs();
    let ingest = json!({"paths": [team.world.files().join("alphazone")], "async": true});
    let verb = team.start_corpus_job(&team.alpha, "ingest", &ingest).unwrap();
    let begun = || team.jobs().into_iter().find(|it| !known.contains(it));
    team.world.wait_until("the verb has started an index job", REVOKE_LIMIT, |_| begun().is_some());
    team.world.ok(&["jobs", "cancel", &begun().unwrap()]);
    let stands = || team.corpus_job_state(&team.alpha, &verb, false);
    team.world.wait_until("the verb has ended", REVOKE_LIMIT, |_| stands().as_deref() != Ok("running"));
    assert_eq!(stands().as_deref(), Ok("cancelled"));
}

#[test]
fn index_ready_requires_a_file_in_scope() {
    let team = team();
    std::fs::create_dir(team.world.files().join("newzone")).unwrap();
    let new = add_key(&team.world, "new", "newzone", "read");
    let ready = |key: &str| {
        ["/v1/status", "/health"].map(|path| team.send(key, "GET", path, &Value::Null).json()["index_ready"].clone())
    };
    assert_eq!(ready(&team.alpha), [json!(true), json!(true)]);
    assert_eq!(ready(&new), [json!(false), json!(false)], "files outside the scope must not count");
    team.world.write("newzone/first.md", "The gammacanary is new here.\n");
    team.world.ok(&["index", team.world.files().join("newzone").to_str().unwrap()]);
    assert_eq!(ready(&new), [json!(true), json!(true)]);
}

#[test]
fn view_does_not_reveal_file_count_of_others() {
    let team = team();
    let made = |name: &str| {
        let view = json!({"action": "create", "name": name, "filter": "size>0"});
        let told = team.send(&team.alpha, "POST", "/v1/corpus/view", &view);
        assert_eq!(told.status, 200, "{}", told.body);
        told.json()["data"]["upto"].clone()
    };
    let before = made("before");
    (0..20).for_each(|number| drop(team.world.write(&format!("betazone/{number}.md"), "Another betacanary.\n")));
    team.world.ok(&["index", team.world.files().join("betazone").to_str().unwrap()]);
    assert!(before.as_u64().is_some_and(|it| it > 0), "{before}");
    assert_eq!(made("after"), before);
}

#[test]
fn model_address_is_shown_only_to_owner() {
    // No process listens on this port, so the model cannot be reached.
    let world = World::new()
        .with("VIC_LIBRARIAN_BACKEND", "openai")
        .with("VIC_OPENAI_MODEL", "any")
        .with("VIC_OPENAI_BASE_URL", "http://127.0.0.1:9");
    let team = team_in(world);
    let question = "who keeps the ladder of the orchard?";
    let assisted = grpc_client::string_field(3, std::str::from_utf8(&grpc_client::string_field(1, question)).unwrap());
    for (key, is_told) in [(&team.owner, true), (&team.alpha, false)] {
        let asked = team.send(key, "POST", "/v1/ask", &json!({"query": question})).json();
        let (warnings, streamed) = (asked["warnings"].to_string(), team.grpc(key, "/vic.v1.Llm/Assist", &assisted));
        assert!(warnings.contains("cannot reach"), "{asked:#}");
        for told in [warnings, streamed.headers] {
            assert_eq!(told.contains("127.0.0.1"), is_told, "{told}");
        }
    }
    assert!(team.world.log().contains("127.0.0.1:9"), "the log must contain the address");
}
