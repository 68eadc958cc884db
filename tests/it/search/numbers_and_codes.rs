//! Tests that numbers, codes and Chinese words are found among many files of the same kind.

use crate::support::harness::World;

/// A made-up checksum of a build, in hex.
fn checksum(build: u32) -> String {
    blake3::hash(&build.to_le_bytes()).to_hex()[..40].to_string()
}

#[test]
fn number_in_question_names_one_of_many_alike_files() {
    let world = World::new().with("VIC_WATCH", "0").start();
    for build in 1..=300 {
        let lines = format!("runner {}\nSHA-1: {}", 900 - build, checksum(build));
        world.write(
            &format!("ci/build-{build:04}.log"),
            format!("Build {build} started\n{lines}\nbuild {build} finished"),
        );
    }
    for note in 0..60 {
        let text = format!("Meeting {note}. Build {} was late, and 17 people came.", note + 100);
        world.write(&format!("notes/note-{note}.md"), text);
    }
    world.index();
    let first = |question: &str| world.paths(&[question]).first().cloned().unwrap_or_default();
    for question in ["SHA-1 of build 17", "what is the SHA-1 of build 17?", "sha1 build 17", &checksum(17)] {
        assert_eq!(first(question), "ci/build-0017.log", "{question}");
    }
    assert_eq!(first("SHA-1 of build 170"), "ci/build-0170.log");
}

#[test]
fn chinese_word_is_found_among_many_chinese_files() {
    let world = World::new().with("VIC_WATCH", "0").start();
    // These share single characters with the words that are looked for.
    let others =
        ["发电机运行正常，门票已经售完。", "印刷件由办公室统一发放。", "本周完成了码头设备的检查，复查另行通知。"];
    for number in 0..150 {
        let text = format!("# 记录{number}\n\n{}{}", others[number % 3], others[(number + 1) % 3]);
        world.write(&format!("记录/{number}.md"), text);
    }
    world.write("财务/报销.md", "# 说明\n\n出差结束以后，请在十天之内把发票交给财务部。");
    world.write("财务/资料.txt", "申请人应当提交身份证的复印件两份，原件核对以后退还。");
    world.index();
    for (question, file) in [
        ("发票", "财务/报销.md"),
        ("\"发票\"", "财务/报销.md"),
        ("复印件", "财务/资料.txt"),
        ("复印件要几份？", "财务/资料.txt"),
    ] {
        assert_eq!(world.paths(&[question]).first().map(String::as_str), Some(file), "{question}");
    }
}
