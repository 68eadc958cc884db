//! What all keys have in common: nobody takes all of it, and of what somebody has begun nothing goes on once the key is
//! revoked.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Team, add, team, team_in};
use crate::h2;
use crate::harness::World;

/// An answer under way ends so soon after its key was revoked, where the machine is busy with other tests.
const GONE: Duration = Duration::from_secs(5);

/// A team whose index pauses, with a file of Alpha's that is still to be read: jobs that want it wait.
fn paused() -> Team {
    // Nobody but the jobs sees the file.
    let team = team_in(World::new().with("VIC_WATCH", "0"));
    team.world.ok(&["pause"]);
    team.world.write("alphazone/third.md", "One more alphacanary, on the roof.\n");
    team
}

impl Team {
    /// Begins a job of the contract; gives its id, or the status of the refusal.
    fn begin(&self, key: &str, verb: &str, body: &Value) -> Result<String, u16> {
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

    /// Where a job of the contract stands, after it was ended where that is asked for; or the status of the refusal.
    fn stands(&self, key: &str, id: &str, cancel: bool) -> Result<String, u16> {
        let told = self.send(key, "POST", "/v1/corpus/job", &json!({"id": id, "cancel": cancel}));
        match told.status {
            200 => Ok(told.json()["data"]["state"].as_str().unwrap().to_string()),
            status => Err(status),
        }
    }

    /// Starts an index job of Alpha's folder.
    fn index(&self, key: &str) -> Result<String, u16> {
        let told = self.send(key, "POST", "/v1/index/start", &json!({"root": self.world.files().join("alphazone")}));
        match told.status {
            202 => Ok(told.json()["job_id"].as_str().unwrap().to_string()),
            status => Err(status),
        }
    }
}

#[test]
fn a_key_has_half_of_the_jobs_and_ends_those_that_it_began() {
    let team = paused();
    let gamma = add(&team.world, "gamma", "betazone", "read");
    // All others wait behind it.
    let ingest = json!({"paths": [team.world.files().join("alphazone")], "async": true});
    let first = team.begin(&team.alpha, "ingest", &ingest).unwrap();
    let query = json!({"filter": "size>0", "async": true});
    let begun: Vec<String> = (0..100).map_while(|_| team.begin(&team.beta, "query", &query).ok()).collect();
    assert_eq!((begun.len(), team.begin(&team.beta, "query", &query)), (32, Err(429)));
    for other in [&team.alpha, &gamma, &team.owner] {
        team.begin(other, "query", &query).unwrap();
    }
    let (one, another) = (&begun[30], &begun[31]);
    // To others it does not exist, also to those who have the same folders.
    for key in [&team.beta, &team.owner] {
        assert_eq!(team.stands(key, one, false).as_deref(), Ok("running"));
    }
    for (key, id) in [(&gamma, one), (&team.alpha, one), (&team.beta, &first)] {
        assert_eq!([false, true].map(|cancel| team.stands(key, id, cancel)), [Err(404), Err(404)]);
    }
    for (key, id) in [(&team.beta, one), (&team.owner, another), (&team.beta, another), (&team.alpha, &first)] {
        assert_eq!(team.stands(key, id, true).as_deref(), Ok("cancelled"));
    }
    team.begin(&team.beta, "query", &query).unwrap();
    team.world.ok(&["resume"]);
    team.world.until("the others are done", Duration::from_secs(60), |_| {
        begun[..30].iter().all(|it| team.stands(&team.beta, it, false).as_deref() == Ok("completed"))
    });
    assert_eq!(team.stands(&team.beta, one, false).as_deref(), Ok("cancelled"));
}

#[test]
fn a_key_has_half_of_the_index_jobs() {
    let team = paused();
    let delta = add(&team.world, "delta", "alphazone", "index");
    let begun: Vec<String> = (0..200).map_while(|_| team.index(&team.alpha).ok()).collect();
    assert_eq!((begun.len(), team.index(&team.alpha)), (64, Err(429)));
    team.index(&delta).unwrap();
    team.index(&team.owner).unwrap();
    // One that has ended leaves its place.
    assert_eq!(team.grpc(&team.alpha, "/vic.v1.Vic/CancelJob", &h2::text(1, &begun[63])).code, Some(0));
    team.world.until("there is a place again", Duration::from_secs(10), |_| team.index(&team.alpha).is_ok());
}

#[test]
fn what_is_under_way_for_a_key_ends_when_it_is_revoked() {
    let team = paused();
    let job = team.index(&team.alpha).unwrap();
    let (events, message) = (format!("/v1/index/events?job_id={job}"), h2::text(1, &job));
    let watch = |key: &str| team.grpc(key, "/vic.v1.Vic/WatchJob", &message);
    let (told, called, owners, took) = std::thread::scope(|scope| {
        let over_http = scope.spawn(|| team.send(&team.alpha, "GET", &events, &Value::Null));
        let over_grpc = scope.spawn(|| watch(&team.alpha));
        let owners = scope.spawn(|| watch(&team.owner));
        std::thread::sleep(Duration::from_secs(2));
        let waits = !over_http.is_finished() && !over_grpc.is_finished();
        team.world.ok(&["keys", "revoke", "alpha"]);
        let revoked = Instant::now();
        while !(over_http.is_finished() && over_grpc.is_finished()) && revoked.elapsed() < GONE {
            std::thread::sleep(Duration::from_millis(20));
        }
        let took = (waits && !owners.is_finished()).then(|| revoked.elapsed());
        // In any case: nobody waits for ever.
        team.world.ok(&["resume"]);
        (over_http.join().unwrap(), over_grpc.join().unwrap(), owners.join().unwrap(), took)
    });
    assert!(took.is_some_and(|it| it < GONE), "{took:?}");
    assert!(told.status == 200 && told.body.contains("event: progress"), "{}", told.body);
    assert!(!told.body.contains("event: done"), "{}", told.body);
    assert_eq!(called.code, Some(16), "{called:?}");
    assert_eq!(owners.code, Some(0), "whatever else is under way goes on to its end");
    assert_eq!(team.send(&team.alpha, "GET", "/v1/status", &Value::Null).status, 401);
}

#[test]
fn the_index_is_ready_for_a_key_once_something_of_its_own_is_indexed() {
    let team = team();
    std::fs::create_dir(team.world.files().join("newzone")).unwrap();
    let new = add(&team.world, "new", "newzone", "read");
    let ready = |key: &str| {
        ["/v1/status", "/health"].map(|path| team.send(key, "GET", path, &Value::Null).json()["index_ready"].clone())
    };
    assert_eq!(ready(&team.alpha), [json!(true), json!(true)]);
    assert_eq!(ready(&new), [json!(false), json!(false)], "what others have is not theirs");
    team.world.write("newzone/first.md", "The gammacanary is new here.\n");
    team.world.ok(&["index", team.world.files().join("newzone").to_str().unwrap()]);
    assert_eq!(ready(&new), [json!(true), json!(true)]);
}

#[test]
fn a_view_does_not_tell_how_many_files_others_have() {
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
fn where_the_model_is_that_does_not_answer_is_told_to_the_owner_alone() {
    // Nobody listens there.
    let world = World::new()
        .with("VIC_LIBRARIAN_BACKEND", "openai")
        .with("VIC_OPENAI_MODEL", "any")
        .with("VIC_OPENAI_BASE_URL", "http://127.0.0.1:9");
    let team = team_in(world);
    let question = "who keeps the ladder of the orchard?";
    let assisted = h2::text(3, std::str::from_utf8(&h2::text(1, question)).unwrap());
    for (key, is_told) in [(&team.owner, true), (&team.alpha, false)] {
        let asked = team.send(key, "POST", "/v1/ask", &json!({"query": question})).json();
        let (warnings, streamed) = (asked["warnings"].to_string(), team.grpc(key, "/vic.v1.Llm/Assist", &assisted));
        assert!(warnings.contains("cannot reach"), "{asked:#}");
        for told in [warnings, streamed.headers] {
            assert_eq!(told.contains("127.0.0.1"), is_told, "{told}");
        }
    }
    assert!(team.world.log().contains("127.0.0.1:9"), "the log keeps it");
}
