//! The form of the files in `deploy/milvus`.

use std::path::Path;

use serde_json::Value;

fn read(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy/milvus").join(name);
    serde_yaml_ng::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns whether settings of Milvus demand a user and TLS.
fn is_closed(settings: &Value) -> bool {
    let security = &settings["common"]["security"];
    let has_certificate = settings["tls"]["serverPemPath"].is_string() && settings["tls"]["serverKeyPath"].is_string();
    security["authorizationEnabled"] == true && security["tlsMode"] == 1 && has_certificate
}

#[test]
fn compose_file_publishes_one_port_with_users_and_tls() {
    let compose = read("compose.yaml");
    let services = compose["services"].as_object().unwrap();
    let published: Vec<_> = services.iter().filter(|it| !it.1["ports"].is_null()).collect();
    assert_eq!(published.len(), 1);
    assert_eq!((published[0].0.as_str(), &published[0].1["ports"]), ("milvus", &serde_json::json!(["19530:19530"])));
    for (name, service) in services {
        let image = service["image"].as_str().unwrap();
        assert!(image.contains(':') && !image.ends_with(":latest"), "{name} has no fixed version");
        for volume in service["volumes"].as_array().unwrap() {
            let source = volume.as_str().unwrap().split(':').next().unwrap();
            assert!(
                source.starts_with("./") || compose["volumes"].as_object().unwrap().contains_key(source),
                "{source}"
            );
        }
    }
    assert!(is_closed(&read("user.yaml")));
}

#[test]
fn cluster_values_demand_users_and_tls() {
    let values = read("values.yaml");
    let user = values["extraConfigFiles"]["user.yaml"].as_str().unwrap();
    assert!(is_closed(&serde_yaml_ng::from_str(user).unwrap()));
    assert_eq!((&values["cluster"]["enabled"], &values["service"]["type"]), (&true.into(), &"ClusterIP".into()));
    let mounted = values["proxy"]["volumeMounts"][0]["mountPath"].as_str().unwrap();
    assert!(user.contains(mounted), "the proxy does not have the certificate");
    assert_eq!(
        values["image"]["all"]["tag"],
        read("compose.yaml")["services"]["milvus"]["image"].as_str().unwrap().rsplit(':').next().unwrap()
    );
}
