//! Tests of the pages of files as pictures, with the places of words.

use serde_json::json;

use crate::support::harness::{World, sample_dir};
use crate::support::http_client::post;

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
