//! Tests that each API key gets only part of the slots, and that only the owner sees addresses and command lines of
//! backends.

use futures::StreamExt;
use tokio::task::JoinHandle;

use super::*;
use crate::error::{Error, Result};
use crate::llm::LlmRequest;
use crate::model::{Principal, PrivacyMode, ToolSpec};

/// An assistant with tools that never return.
fn stuck(dir: &std::path::Path) -> Assistant {
    struct Stuck(FakeTools);
    #[async_trait::async_trait]
    impl ToolProvider for Stuck {
        fn specs(&self) -> Vec<ToolSpec> {
            self.0.specs()
        }

        async fn call(&self, _name: &str, _arguments: Value, _scope: &Scope) -> Result<Value> {
            std::future::pending().await
        }
    }
    let (_, config) = assistant(dir);
    Assistant::new(&config, Arc::new(Stuck(FakeTools::default())), Arc::new(FakeWitness), None)
}

/// Returns the errors of the tasks that have ended after 50 ms; the other tasks go on.
async fn refused(begun: Vec<JoinHandle<Result<()>>>) -> Vec<Error> {
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut refused = Vec::new();
    for one in begun.into_iter().filter(JoinHandle::is_finished) {
        refused.extend(one.await.unwrap().err());
    }
    refused
}

#[tokio::test]
async fn tool_calls_above_the_limit_are_rejected_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let assistant = stuck(dir.path());
    let call = || {
        let assistant = assistant.clone();
        tokio::spawn(async move { assistant.call("db_summary", json!({})).await })
    };
    let at_work: Vec<_> = (0..32).map(|_| call()).collect();
    let refused = call().await.unwrap().unwrap_err();
    assert!(refused.code == ErrorCode::ResourceExhausted && refused.message.contains("32 tools"), "{refused}");
    // Aborts the calls that hold the slots: an aborted call must free its slot.
    for one in at_work {
        one.abort();
        one.await.unwrap_err();
    }
    let begun = call();
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!begun.is_finished());
}

#[tokio::test]
async fn one_key_takes_at_most_half_of_the_slots() {
    let dir = tempfile::tempdir().unwrap();
    let assistant = stuck(dir.path());
    let [ada, bo] = ["ada", "bo"].map(|it| assistant.with_holder(Principal::Key(it.into())));
    let question = |of: &Assistant| {
        let of = of.clone();
        tokio::spawn(async move { of.ask("how heavy?", &Override::default()).await.map(drop) })
    };
    let call = |of: &Assistant| {
        let of = of.clone();
        tokio::spawn(async move { of.call("db_summary", json!({})).await.map(drop) })
    };
    let told = refused((0..4).map(|_| question(&ada)).chain((0..32).map(|_| call(&ada))).collect()).await;
    let count = |what: &str| told.iter().filter(|it| it.message.contains(what)).count();
    assert_eq!((count("2 questions to models"), count("16 tools"), told.len()), (2, 16, 18), "{told:?}");
    assert!(told.iter().all(|it| it.code == ErrorCode::ResourceExhausted && it.hint.is_some()));
    let told = refused((0..2).map(|_| question(&bo)).chain((0..16).map(|_| call(&bo))).collect()).await;
    assert!(told.is_empty(), "{told:?}");
}

#[tokio::test]
async fn requests_per_key_are_limited_until_one_ends() {
    let dir = tempfile::tempdir().unwrap();
    let (assistant, _) = assistant(dir.path());
    let [ada, bo] = ["ada", "bo"].map(|it| assistant.with_holder(Principal::Key(it.into())));
    let ask = |of: &Assistant| {
        of.stream(LlmRequest::new(PrivacyMode::LocalOnly, "", "how heavy?"), &Override::default(), false)
    };
    let mut begun: Vec<_> = std::iter::from_fn(|| ask(&ada).ok()).take(100).collect();
    assert_eq!((begun.len(), ask(&ada).err().map(|it| it.code)), (16, Some(ErrorCode::ResourceExhausted)));
    drop(ask(&bo).unwrap());
    drop(begun.pop());
    drop(ask(&ada).unwrap());
}

#[tokio::test]
async fn backend_address_and_command_are_shown_to_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let (assistant, mut config) = assistant(dir.path());
    let line = CommandLine { program: "true".into(), args: vec!["--token=s3cret".into()], folder: dir.path().into() };
    let over = Override { command: Some(line), ..Override::default() };
    let mut choice = BackendChoice::configured(&config).with_overrides(&over).unwrap();
    let (none, owner) = (Override::default(), assistant.with_rights(true, false));
    for folder in [dir.path().to_path_buf(), dir.path().join("gone")] {
        choice.command.as_mut().unwrap().folder = folder;
        choice.save(&config).unwrap();
        assert!(owner.status(&none).await.unwrap().command.unwrap().contains("s3cret"));
        let status = assistant.status(&none).await.unwrap();
        let told = serde_json::to_string(&status).unwrap();
        assert!(!told.contains("s3cret") && !told.contains("gone"), "{told}");
        assert_eq!(status.ready, status.problem.is_none());
    }
    assert!(owner.capabilities(&none).await.unwrap().place.contains("true"));
    assert_eq!(assistant.capabilities(&none).await.unwrap().place, "");
    config.embed.openai_url = "http://127.0.0.1:1".into();
    let away = Assistant::new(&config, hive(), Arc::new(FakeWitness), None);
    let refused = away.capabilities(&Override { backend: Some(BackendKind::OpenAi), ..none }).await.unwrap_err();
    assert!(!refused.message.contains("127.0.0.1") && refused.message.contains("vic llm status"), "{refused}");
}

#[tokio::test]
async fn address_of_failed_server_is_shown_to_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let (_, mut config) = assistant(dir.path());
    // `local_only` forbids this address, so no request is sent.
    config.embed.openai_url = "http://192.0.2.7:9".into();
    let shared = Assistant::new(&config, hive(), Arc::new(FakeWitness), None);
    let over = Override { backend: Some(BackendKind::OpenAi), model: Some("m".into()), ..Override::default() };
    let request = || LlmRequest::new(PrivacyMode::LocalOnly, "", "how heavy?");
    for owns in [true, false] {
        let it = shared.with_rights(owns, false);
        let agent = AgentRequest { question: "how heavy?".into(), over: over.clone(), ..AgentRequest::default() };
        let events: Vec<_> = it.stream(request(), &over, false).unwrap().collect().await;
        for told in [
            it.ask("how heavy?", &over).await.unwrap_err().message,
            it.answer("how heavy?", &over).await.unwrap_err().message,
            it.embed(&["heavy".into()], PrivacyMode::LocalOnly, &over).await.unwrap_err().message,
            it.validate(request(), &over, false).await.unwrap_err().message,
            serde_json::to_string(&it.agent(&agent).await.unwrap()).unwrap(),
            format!("{events:?}"),
        ] {
            assert!(told.contains("forbids sending text to"), "why is for everybody: {told}");
            assert_eq!(told.contains("192.0.2.7"), owns, "{told}");
        }
    }
}

#[tokio::test]
async fn output_of_failed_command_is_shown_to_owner_only() {
    let dir = tempfile::tempdir().unwrap();
    let (assistant, config) = assistant(dir.path());
    let args = vec!["-c".into(), "echo 'cannot open /home/s3cret' >&2; exit 3".into()];
    let line = CommandLine { program: "sh".into(), args, folder: "/".into() };
    let over = Override { command: Some(line), ..Override::default() };
    BackendChoice::configured(&config).with_overrides(&over).unwrap().save(&config).unwrap();
    let none = Override::default();
    for owns in [true, false] {
        let it = assistant.with_rights(owns, false);
        let error = it.ask("how heavy?", &none).await.unwrap_err();
        assert_eq!((error.code, error.message.contains("s3cret")), (ErrorCode::FailedPrecondition, owns), "{error}");
        let request = AgentRequest { question: "how heavy?".into(), ..AgentRequest::default() };
        let report = it.agent(&request).await.unwrap();
        assert_eq!(report.model == "command", !owns, "{}", report.model);
        assert_eq!(serde_json::to_string(&report).unwrap().contains("s3cret"), owns, "{report:?}");
    }
}

#[tokio::test]
async fn only_local_user_may_name_a_program() {
    let dir = tempfile::tempdir().unwrap();
    let (assistant, _) = assistant(dir.path());
    let line = CommandLine { program: "true".into(), args: vec![], folder: "/".into() };
    let over = Override { command: Some(line), ..Override::default() };
    for owns in [false, true] {
        let error = assistant.with_rights(owns, false).ask("x", &over).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::PermissionDenied, "{error}");
    }
    // With the right to name a program the command runs; it fails only because `true` prints nothing.
    let error = assistant.with_rights(true, true).ask("x", &over).await.unwrap_err();
    assert!(error.message.contains("printed nothing"), "{error}");
}
