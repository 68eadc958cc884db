//! Tests searches by names of files, archive members and attachments, by the date of mail, and by numbers in any notation.

use std::io::{Cursor, Write};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::support::harness::World;

/// Starts a daemon and indexes these files among a hundred unrelated files.
fn world_with_noise(files: &[(&str, &[u8])]) -> World {
    const WORDS: [&str; 12] = [
        "bridge", "ribbon", "barley", "lantern", "garden", "ledger", "winter", "window", "market", "harbour", "video",
        "register",
    ];
    let world = World::new().with("VIC_WATCH", "0").start();
    for number in 0..100_usize {
        let text: Vec<&str> = (0..30).map(|it| WORDS[(number * 7 + it * it) % WORDS.len()]).collect();
        world.write(
            &format!("note{number}.txt"),
            format!("{}. Order {number} is {}.", text.join(" "), 100 + 13 * number),
        );
    }
    for (path, content) in files {
        world.write(path, content);
    }
    world.index();
    world
}

fn check_first_hit(world: &World, question: &str, first: &str) {
    assert_eq!(world.paths(&[question]).first().map(String::as_str), Some(first), "{question}");
}

fn first_hit(world: &World, question: &str) -> Value {
    world.json(&["ask", question])["hits"][0].clone()
}

#[test]
fn file_is_found_by_name_regardless_of_text() {
    let text: &[u8] = b"A page of something else altogether.";
    let world = world_with_noise(&[
        ("tariff-register-omega.txt", text),
        ("Jahresabschluss Nordkai 2025.txt", text),
        ("winter ledger.txt", text),
        ("sub/QuarterlyForecast_Tern.md", b"Another page, on the weather."),
        ("Stra\u{df}e/\u{dc}bersicht.md", b"One more page."),
        ("regatta video tarnmouth.mp4", b"\0\0\0\x18ftypmp42 not really"),
    ]);
    for (question, first) in [
        ("omega", "tariff-register-omega.txt"),
        ("+omega", "tariff-register-omega.txt"),
        ("\"tariff register omega\"", "tariff-register-omega.txt"),
        (
            "please tell me which of my files have something to do with the tariff register omega",
            "tariff-register-omega.txt",
        ),
        ("Jahresabschluss Nordkai", "Jahresabschluss Nordkai 2025.txt"),
        ("winter ledger", "winter ledger.txt"),
        ("quarterly forecast tern", "sub/QuarterlyForecast_Tern.md"),
        ("strasse ubersicht", "Stra\u{df}e/\u{dc}bersicht.md"),
        ("regatta video", "regatta video tarnmouth.mp4"),
    ] {
        check_first_hit(&world, question, first);
    }
    assert_eq!(world.paths(&["+omega"]).len(), 1);
    assert!(world.paths(&["register -omega"]).iter().all(|it| it != "tariff-register-omega.txt"));
    let found = first_hit(&world, "tariff omega");
    assert!(found["reasoning"].as_str().unwrap().contains("the name holds tariff, omega"), "{found:#}");
    // A deleted or renamed file must not be found by its old name.
    std::fs::remove_file(world.files().join("winter ledger.txt")).unwrap();
    std::fs::rename(world.files().join("tariff-register-omega.txt"), world.files().join("epsilon.txt")).unwrap();
    world.index();
    assert!(world.paths(&["+omega"]).is_empty());
    check_first_hit(&world, "epsilon", "epsilon.txt");
    assert!(world.paths(&["winter ledger"]).iter().all(|it| it != "winter ledger.txt"));
}

#[test]
fn archive_members_are_found_by_name() {
    let archive = |members: &[(&str, &[u8])]| {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, content) in members {
            zip.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
            zip.write_all(content).unwrap();
        }
        zip.finish().unwrap().into_inner()
    };
    let silent = archive(&[("clips/Heronsong.mp4", b"\0\0\0\x18ftypmp42")]);
    let both = archive(&[("readme.txt", b"Pictures of the fair."), ("Bitternfair.mp4", b"\0\0\0\x18ftypmp42")]);
    let world = world_with_noise(&[("names-only.zip", &silent), ("fair.zip", &both)]);
    for (question, first) in [("Heronsong", "names-only.zip"), ("bitternfair", "fair.zip")] {
        let found = first_hit(&world, question);
        assert!(found["path"].as_str().unwrap().starts_with(first), "{found:#}");
        assert!(found["metadata"]["inner_names"][0].as_str().unwrap().ends_with(".mp4"), "{found:#}");
    }
}

fn mail(from: &str, date: &str, subject: &str, attachment: Option<&str>) -> String {
    let head = format!(
        "From: {from} <{from}@quill.example>\r\nTo: ben@quill.example\r\nDate: {date}\r\nSubject: {subject}\r\n"
    );
    match attachment {
        None => format!("{head}\r\nAs we said.\r\n"),
        Some(name) => format!(
            "{head}MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\n\
             As we said.\r\n--b\r\nContent-Type: application/octet-stream; name=\"{name}\"\r\nContent-Disposition: attachment; \
             filename=\"{name}\"\r\nContent-Transfer-Encoding: base64\r\n\r\nAAEC\r\n--b--\r\n"
        ),
    }
}

/// Returns an Outlook message with one attachment.
fn outlook(subject: &str, attachment: &str) -> Vec<u8> {
    let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let mut file = cfb::CompoundFile::create(Cursor::new(Vec::new())).unwrap();
    file.create_storage("/__attach_version1.0_#00000000").unwrap();
    // The submit time is 2025-05-06, in units of 100 ns since 1601.
    let ticks = (1_746_489_600_u64 + 11_644_473_600) * 10_000_000;
    let properties = [vec![0; 32], vec![0x40, 0, 0x39, 0, 0, 0, 0, 0], ticks.to_le_bytes().to_vec()].concat();
    for (path, content) in [
        ("/__properties_version1.0", properties),
        ("/__substg1.0_0037001F", utf16(subject)),
        ("/__substg1.0_1000001F", utf16("See what is attached.")),
        ("/__attach_version1.0_#00000000/__substg1.0_3707001F", utf16(attachment)),
        ("/__attach_version1.0_#00000000/__substg1.0_37010102", b"\0\x01\x02".to_vec()),
    ] {
        file.create_stream(path).unwrap().write_all(&content).unwrap();
    }
    file.flush().unwrap();
    file.into_inner().into_inner()
}

#[test]
fn hit_in_a_mailbox_names_subject_and_sender_of_its_message() {
    let message = |writer: &str, text: &str| {
        format!(
            "From box@example.org Thu Nov 27 09:12:00 2025\nFrom: {writer} <{writer}@example.org>\n\
             Subject: Re: The coach\nDate: Thu, 27 Nov 2025 09:12:00 +0000\n\n{text}\n\n"
        )
    };
    let mailbox =
        [message("signe", "I bring the soup pot."), message("idris", "The harpsichord needs a seat of its own.")];
    let world = world_with_noise(&[("coach.mbox", mailbox.concat().as_bytes()), ("broken.pdf", b"%PDF-1.7\nno more")]);
    world.index();
    let found = first_hit(&world, "harpsichord");
    assert_eq!(found["path"], "coach.mbox", "{found:#}");
    assert_eq!(found["metadata"]["title"], "Re: The coach", "{found:#}");
    assert!(found["metadata"]["author"].as_str().unwrap().contains("idris"), "{found:#}");
    assert_eq!(found["metadata"]["state"], serde_json::Value::Null);
    // A file that could not be read is found by its name, and says so.
    let broken = first_hit(&world, "broken pdf");
    assert_eq!((&broken["metadata"]["state"], &broken["metadata"]["reason"]), (&"failed".into(), &"damaged".into()));
}

#[test]
fn mail_uses_its_own_date_and_lists_attachments() {
    let pump = mail("ada", "Tue, 11 Mar 2025 10:00:00 +0000", "The pump", Some("valve-drawing.bin"));
    let early = mail("ada", "Mon, 6 Jan 2025 10:00:00 +0000", "The pump, again", None);
    let other = mail("cora", "Wed, 12 Mar 2025 10:00:00 +0000", "The quay", None);
    let world = world_with_noise(&[
        ("pump.eml", pump.as_bytes()),
        ("early.eml", early.as_bytes()),
        ("other.eml", other.as_bytes()),
        ("outlook.msg", &outlook("The crane", "crane-manual.bin")),
    ]);
    // Gives a mail a modification time in March, which must not count as the date on which it was sent. All other files are
    // new.
    let march = SystemTime::UNIX_EPOCH + Duration::from_secs(1_742_000_000);
    std::fs::File::options().write(true).open(world.files().join("early.eml")).unwrap().set_modified(march).unwrap();
    world.index();
    let sorted = |question: &str| {
        let mut paths = world.paths(&[question]);
        paths.sort();
        paths
    };
    assert_eq!(sorted("mail of March 2025"), ["other.eml", "pump.eml"]);
    assert_eq!(sorted("please show me all mails that I received in March 2025"), ["other.eml", "pump.eml"]);
    assert_eq!(sorted("emails from May 2025"), ["outlook.msg"]);
    check_first_hit(&world, "mails from Ada in March 2025", "pump.eml");
    let answer = world.json(&["ask", "mail of March 2025"]);
    let warnings = answer["warnings"].to_string();
    assert!(warnings.contains("mail date"), "{answer:#}");
    assert!(answer["hits"][0]["reasoning"].as_str().unwrap().contains("mail date from 2025-03-01"), "{answer:#}");
    assert!(answer["hits"][0]["metadata"]["mail_date"].as_str().unwrap().starts_with("2025-03-1"), "{answer:#}");
    // For files other than mail, a date filter applies to the modification time, without a warning.
    assert!(!world.json(&["ask", "files modified since 2025"])["warnings"].to_string().contains("mail date"));
    for (question, file, attachment) in [
        ("what was attached to the mail about the pump", "pump.eml", "valve-drawing.bin"),
        ("which files were attached to the mail about the crane?", "outlook.msg", "crane-manual.bin"),
        ("valve drawing", "pump.eml", "valve-drawing.bin"),
        ("crane manual", "outlook.msg", "crane-manual.bin"),
    ] {
        let found = first_hit(&world, question);
        assert_eq!(
            (&found["path"], &found["metadata"]["attachments"][0]),
            (&file.into(), &attachment.into()),
            "{found:#}"
        );
    }
    assert_eq!(sorted("mails with attachments"), ["outlook.msg", "pump.eml"]);
}

#[test]
fn number_is_found_in_every_notation() {
    let world = world_with_noise(&[
        ("a.txt", b"The offer of Tolmen Paper is 1,234.56 EUR."),
        ("b.txt", b"Bag of 5 kg flour at the baker."),
        ("c.txt", b"Phone: +44 20 7946 0018 (office)."),
        ("d.txt", b"Printer model WF-M5799DWF in the hall."),
        ("e.txt", b"Paid 98765,40 on delivery of 70kg."),
    ]);
    for (question, first) in [
        ("1234.56", "a.txt"),
        ("1 234,56", "a.txt"),
        ("1234", "a.txt"),
        ("+1234.56", "a.txt"),
        ("5kg", "b.txt"),
        ("+5kg", "b.txt"),
        ("02079460018", "c.txt"),
        ("WFM5799DWF", "d.txt"),
        ("98,765.40", "e.txt"),
        ("70 kg", "e.txt"),
    ] {
        check_first_hit(&world, question, first);
    }
    let found = first_hit(&world, "1234.56 EUR");
    assert!(found["reasoning"].as_str().unwrap().contains("2 of 2 words"), "{found:#}");
}
