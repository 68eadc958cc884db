//! Tests of the advice to use another embedding model, and of the command that switches to it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::harness::World;

/// Number of files, each with one passage.
const FILES: usize = 12;

fn write_german_files(world: &World) {
    for number in 0..FILES {
        let text = format!(
            "Der Vertrag über die Halle {number} kann mit einer Frist von drei Monaten zum Ende des Quartals gekündigt werden.\n"
        );
        world.write(&format!("{number}.md"), text);
    }
}

/// Makes a model of its own in a folder: the default model with shorter vectors.
fn own_model(world: &World) -> PathBuf {
    let folder = world.files().with_file_name("short");
    std::fs::create_dir(&folder).unwrap();
    let cache = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/cache/all-MiniLM-L6-v2");
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        std::os::unix::fs::symlink(cache.join(file), folder.join(file)).unwrap();
    }
    std::fs::write(folder.join("vic.toml"), "truncate_dim = 128\n").unwrap();
    folder
}

#[test]
fn foreign_text_is_advised_and_model_switch_states_cost() {
    let world = World::new().start();
    write_german_files(&world);
    let said = world.vic(&["index", world.files().to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&said.stderr).contains("vic models use multilingual-e5-small"), "{said:?}");
    let status = world.json(&["status"]);
    assert_eq!(status["languages"]["de"], FILES, "{status}");
    assert!(status["advice"][0].as_str().unwrap().contains("German"), "{status}");
    assert_eq!(world.json(&["models", "suggest"])["suggested"], "multilingual-e5-small");

    let (_, refused) = world.fails(&["models", "use", "bge-small-en-v1.5", "--yes"]);
    assert!(refused.contains("vic models pull bge-small-en-v1.5"), "{refused}");
    let own = own_model(&world);
    let (_, refused) = world.fails(&["models", "use", own.to_str().unwrap()]);
    assert!(refused.contains("--yes") && !world.data().join("config.toml").exists(), "{refused}");
    let said = world.ok(&["models", "use", own.to_str().unwrap(), "--yes"]);
    assert!(said.contains("12 chunks") && said.contains("short"), "{said}");
    world.wait_until("the new index answers", Duration::from_secs(60), |it| {
        let status = it.json(&["status"]);
        status["dimension"] == 128 && status["coverage"]["pending"] == 0 && status["degraded"][0].is_null()
    });
    assert_eq!(world.paths(&["Vertrag über die Halle 7"])[0], "7.md");
    let settings = std::fs::read_to_string(world.data().join("config.toml")).unwrap();
    assert!(settings.contains("embed_model"), "{settings}");
    world.ok(&["daemon", "stop"]);
}

#[test]
fn model_switch_is_refused_if_environment_decides() {
    let world = World::new().with("VIC_EMBED_MODEL", "all-MiniLM-L6-v2");
    let (_, refused) = world.fails(&["models", "use", "multilingual-e5-small", "--yes"]);
    assert!(refused.contains("VIC_EMBED_MODEL is set in the environment"), "{refused}");
}
