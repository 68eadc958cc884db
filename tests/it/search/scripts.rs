//! Tests that words of every script are found: across accents, inside runs without blanks, inside identifiers, in file names.

use crate::support::harness::World;

/// Files that are about something else, so that a search by meaning alone seldom puts the right file first.
fn write_other_files(world: &World) {
    for number in 0..40 {
        world.write(&format!("other/note{number}.md"), format!("Note {number}: the ferry leaves the quay at nine."));
    }
}

/// Asks each question and checks that this file comes first and is the first of keyword search.
fn check_first(world: &World, expected: &[(&str, &str)]) {
    for (question, file) in expected {
        let answer = world.json(&["ask", "--explain", question]);
        let first = &answer["hits"][0];
        assert_eq!(first["path"], *file, "{question}: {answer}");
        assert_eq!(first["metadata"]["keyword"]["rank"], 1, "{question}: {first}");
    }
}

#[test]
fn words_are_found_in_every_script() {
    let world = World::new().with("VIC_WATCH", "0").start();
    write_other_files(&world);
    for (file, text) in [
        ("zh.md", "请把本月的发票寄到会计办公室，复印件留在这里。"),
        ("ja.md", "駅前の蕎麦屋で七時に会いましょう。"),
        ("ko.md", "임대차계약서를 내일까지 보내 주세요."),
        ("th.md", "กรุณาส่งใบแจ้งหนี้ไปที่สำนักงานบัญชี"),
        ("el.md", "Το κλειδί της αποθήκης είναι στο γραφείο."),
        ("ru.md", "Ёлка стоит во дворе за гаражом."),
        ("ar.md", "أرسلنا الفاتُورَة إلى المكتب في مارس."),
        ("hi.md", "किराया हर महीने की पहली तारीख को देना है।"),
        ("fr.md", "Le résumé de la réunion est dans le classeur."),
        ("de.md", "Das Büro in der Schloßstraße hat zwei Schlüssel, und der Hausmeister hat den dritten."),
        ("tr.md", "İzmir limanındaki depo kapalı."),
    ] {
        world.write(file, text);
    }
    world.index();
    check_first(
        &world,
        &[
            ("发票", "zh.md"),
            ("复印件", "zh.md"),
            ("发票寄到哪里？", "zh.md"),
            ("蕎麦屋", "ja.md"),
            ("계약서", "ko.md"),
            ("ใบแจ้งหนี้", "th.md"),
            ("αποθηκη", "el.md"),
            ("елка", "ru.md"),
            ("الفاتورة", "ar.md"),
            ("किराया", "hi.md"),
            ("resume", "fr.md"),
            ("Buero", "de.md"),
            ("schlossstrasse", "de.md"),
            ("Izmir", "tr.md"),
        ],
    );
    assert_eq!(world.paths(&["\"复印件\""]), ["zh.md"]);
    assert_eq!(world.paths(&["+发票"]), ["zh.md"]);
    assert_eq!(world.paths(&["\"resume de la reunion\""]), ["fr.md"]);
    assert!(!world.paths(&["office -发票"]).contains(&"zh.md".to_string()));
    let lines = world.json(&["grep", "--fold", "SCHLOSSSTRASSE"]);
    assert_eq!(lines["matches"][0]["path"], "de.md", "{lines}");
    assert_eq!(world.json(&["grep", "SCHLOSSSTRASSE"])["matches"], serde_json::json!([]));
}

#[test]
fn title_with_nothing_below_it_comes_after_a_text() {
    let world = World::new().with("VIC_WATCH", "0").start();
    write_other_files(&world);
    world.write("zh.md", "# 记录\n\n货物到达以后请把发票寄到财务部并且保留复印件。");
    world.write("lone.md", "# 发票\n\n目录。");
    world.write("terms.md", "# Supplier terms\n\nEach supplier sends the invoices to the office within thirty days.");
    world.write("draft.md", "# Invoices\n\nTo do.");
    world.index();
    for (question, expected) in
        [("发票", ["zh.md", "lone.md"]), ("+发票", ["zh.md", "lone.md"]), ("invoices", ["terms.md", "draft.md"])]
    {
        assert_eq!(world.paths(&[question])[..2], expected, "{question}");
    }
}

#[test]
fn identifiers_and_hashes_are_found_by_their_words() {
    let world = World::new().with("VIC_WATCH", "0").start();
    write_other_files(&world);
    world.write("Repo.kt", "class Repo {\n    fun getInvoiceTotal(): Int = 7\n}\n");
    world.write("parse.rb", "class XMLParser\n  def run\n  end\nend\n");
    world.write("store.go", "package store\n\nfunc user_by_id(id int) {}\n");
    let hash = |number: u32| format!("{number:08x}{}", "0123456789abcdef".repeat(4));
    for number in 0..60 {
        world
            .write(&format!("builds/b{number}.txt"), format!("Commit {} was built on machine {number}.", hash(number)));
    }
    world.index();
    check_first(
        &world,
        &[
            ("invoice total", "Repo.kt"),
            ("get invoice", "Repo.kt"),
            ("xml parser", "parse.rb"),
            ("user by id", "store.go"),
            (&hash(17), "builds/b17.txt"),
            (&format!("Which machine built commit {}?", hash(42)), "builds/b42.txt"),
        ],
    );
}

#[test]
fn file_names_are_found_without_accents() {
    let world = World::new().with("VIC_WATCH", "0").start();
    for name in ["Übersicht.md", "résumé tamsin.txt", "Özgeçmiş.txt", "Straße.md"] {
        world.write(name, "text");
    }
    world.index();
    for (query, name) in [
        ("ubersicht", "Übersicht.md"),
        ("resume", "résumé tamsin.txt"),
        ("ozgecmis", "Özgeçmiş.txt"),
        ("strasse", "Straße.md"),
        ("name:ubersicht", "Übersicht.md"),
    ] {
        let found = world.json(&["files", query]);
        let path = found["files"][0]["path"].as_str().unwrap_or_default();
        assert!(path.ends_with(name), "{query}: {found}");
    }
}
