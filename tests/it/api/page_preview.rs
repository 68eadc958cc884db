//! Tests of the pages of files as pictures, with the places of words.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::support::harness::{World, sample_dir};
use crate::support::http_client::{get, post};
use crate::support::seeds::zip;

#[test]
fn quote_is_framed_where_its_words_follow_each_other() {
    let world = World::new().start();
    let lease = sample_dir().join("Contracts/lease-unit-4-tanners-quay.pdf");
    world.write("lease.pdf", std::fs::read(lease).unwrap());
    world.index();
    let path = world.files().join("lease.pdf");
    let page = |quote: &str| {
        let response = post(&world, "/v1/page", &json!({"path": path, "page": 1, "query": "loft", "quote": quote}));
        assert_eq!(response.status, 200, "{}", response.body);
        response.json()
    };
    let found = page("dogs are welcome in  the loft");
    assert!(!found["quote_frames"].as_array().unwrap().is_empty(), "{found}");
    assert!(!found["frames"].as_array().unwrap().is_empty(), "{found}");
    assert_eq!(page("the loft is welcome in dogs")["quote_frames"], json!([]));
    let long = "a".repeat(100_000);
    let refused = post(&world, "/v1/page", &json!({"path": path, "quote": long}));
    assert_eq!(refused.status, 400, "{}", refused.body);
}

#[test]
fn members_of_archives_and_attachments_have_pictures() {
    let world = World::new().start();
    let lease = std::fs::read(sample_dir().join("Contracts/lease-unit-4-tanners-quay.pdf")).unwrap();
    let scan = std::fs::read(sample_dir().join("Scans/piano-receipt.png")).unwrap();
    let inner = zip(&[("lease.pdf", &lease)]);
    let mail = format!(
        "Subject: lease\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nSee the scan.\r\n--b\r\nContent-Type: image/png\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: attachment; filename=\"scan.png\"\r\n\r\n{}\r\n--b--\r\n",
        STANDARD.encode(&scan)
    );
    world.write("a.zip", zip(&[("in/lease.pdf", &lease), ("in/inner.zip", &inner), ("note.txt", b"words")]));
    world.write("m.eml", mail);
    world.index();
    let page = |path: &str| {
        let path = world.files().join(path);
        post(&world, "/v1/page", &json!({"path": path, "page": 1, "query": "loft"}))
    };
    for (path, has_words) in
        [("a.zip!/in/lease.pdf", true), ("a.zip!/in/inner.zip!/lease.pdf", true), ("m.eml!/scan.png", false)]
    {
        let found = page(path).json();
        assert_eq!(found["simplified"], false, "{path}: {found}");
        assert_eq!(!found["frames"].as_array().unwrap().is_empty(), has_words, "{path}: {found}");
        let picture = get(&world, found["picture"].as_str().unwrap());
        assert_eq!((picture.status, picture.header("content-type")), (200, Some("image/jpeg")), "{path}");
    }
    for path in ["a.zip!/in/other.pdf", "a.zip!/note.txt", "a.zip", "m.eml!/scan.pdf"] {
        let status = page(path).status;
        assert!((400..500).contains(&status), "{path}: {status}");
    }
}

#[test]
fn slides_are_shown_as_simplified_pictures_with_places_of_words() {
    let world = World::new().start();
    let talk = std::fs::read(sample_dir().join("Slides/gauges-that-survive-the-winter.pptx")).unwrap();
    world.write("damaged.pptx", &talk[..talk.len() / 2]);
    world.write("talk.pptx", talk);
    world.index();
    let page = |name: &str, number: u32| {
        let path = world.files().join(name);
        let quote = "14 wet cable glands";
        post(&world, "/v1/page", &json!({"path": path, "page": number, "query": "breaks", "quote": quote}))
    };
    let found = page("talk.pptx", 2).json();
    assert_eq!(
        (&found["pages"], &found["simplified"], &found["words_from"]),
        (&json!(4), &json!(true), &json!("text"))
    );
    assert_eq!(found["frames"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["quote_frames"].as_array().unwrap().len(), 1, "{found}");
    let title = &found["frames"][0];
    assert!(title["top"].as_f64() < found["quote_frames"][0]["top"].as_f64(), "{found}");
    assert_eq!(get(&world, found["picture"].as_str().unwrap()).status, 200);
    for (name, number) in [("talk.pptx", 5), ("damaged.pptx", 1)] {
        let refused = page(name, number);
        assert!((400..500).contains(&refused.status), "{name}: {}", refused.body);
    }
}
